// The text of a file of the system (/proc, /sys) as a stream. Unlike that of std::ifstream, its
// descriptor is never open to a program that another thread starts meanwhile.
//
// Bounded: what is beyond kMaxInput is not read. A file that cannot be opened is a failed stream.
// Any thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <utility>

#include "transports/base/owned_fd.h"

namespace ringwood {

inline constexpr size_t kMaxInput = size_t{64} << 20;

class InputFile final : public std::istringstream {
 public:
  explicit InputFile(const std::string& path) {
    const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      setstate(failbit);
      return;
    }
    std::string text;
    char piece[4096];
    for (ssize_t got = 0; text.size() < kMaxInput;) {
      got = ::read(file.get(), piece, sizeof(piece));
      if (got <= 0) break;
      text.append(piece, static_cast<size_t>(got));
    }
    str(std::move(text));
  }
};

}  // namespace ringwood

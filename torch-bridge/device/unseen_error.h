// The error of a group that nobody was told: calls on a device return before they are done, and
// nobody needs to wait for them on the host.
//
// Thread safety: all functions.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "transports/base/error.h"

namespace ringwood {

class UnseenError final {
 public:
  void note(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!seen_ && !error_) error_ = error;
  }
  // It is told now, or was; those that follow are of the same end of the group.
  void seen() {
    const std::lock_guard lock(mutex_);
    seen_ = true;
    error_.reset();
  }
  std::optional<Error> take() {
    const std::lock_guard lock(mutex_);
    seen_ = true;
    return std::exchange(error_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
  bool seen_ = false;
};

}  // namespace ringwood

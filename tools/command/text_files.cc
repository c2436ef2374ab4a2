#include "tools/command/text_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "transports/base/error.h"

namespace ringwood::tools {

std::string read_all(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} cannot be read", file));
  return text;
}

void write_all(const std::string& option, const std::string& file, const std::string& text) {
  if (file == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream out(file, std::ios::binary);
  if (!(out << text << std::flush))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} {}: it cannot be written: {}", option, file, std::strerror(errno)));
}

}  // namespace ringwood::tools

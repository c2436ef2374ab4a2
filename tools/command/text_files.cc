#include "tools/command/text_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "transports/base/error.h"

namespace ringwood::tools {

void refuse_file(const std::string& option, const std::string& file, const std::string& why) {
  refuse(fmt::format("{}{}{}: {}", option, option.empty() ? "" : " ", file, why));
}

std::string read_all(const std::string& option, const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code ignored;
  // Reading one throws.
  if (std::filesystem::is_directory(file, ignored))
    refuse_file(option, file, "it is a folder, not a file");
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open())
    refuse_file(option, file, fmt::format("it cannot be read: {}", std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) refuse_file(option, file, "it cannot be read");
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

#include "tools/command/text_files.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;

}  // namespace

void refuse_file(const std::string& option, const std::string& file, const std::string& why) {
  refuse(fmt::format("{}{}{}: {}", option, option.empty() ? "" : " ", file, why));
}

std::string read_all(const std::string& option, const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    refuse_file(option, file, "it is a folder, not a file");
  const auto close = [](std::FILE* stream) { std::fclose(stream); };
  const std::unique_ptr<std::FILE, decltype(close)> in(std::fopen(file.c_str(), "re"), close);
  const auto fail = [&] {
    refuse_file(option, file, fmt::format("it cannot be read: {}", std::strerror(errno)));
  };
  if (in == nullptr) fail();
  std::string text;
  std::array<char, 1 << 16> part{};
  while (const size_t bytes = std::fread(part.data(), 1, part.size(), in.get())) {
    text.append(part.data(), bytes);
    if (text.size() > kMaxBytes)  // a device, perhaps, which has no end
      refuse_file(option, file, fmt::format("it is larger than {} MiB", kMaxBytes >> 20));
  }
  if (std::ferror(in.get()) != 0) fail();
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

// The values of knobs as text. For the table of knobs only.
//
// A parser throws Expected: what it expected, in words. The caller knows variable and value.
#pragma once

#include <charconv>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "transports/base/options.h"

namespace ringwood {

using Expected = std::string;

template <class T>
T parse_number(const std::string& text, T lowest, T highest) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    throw Expected(fmt::format("a number from {} to {}", lowest, highest));
  }
  return value;
}

std::chrono::milliseconds parse_seconds(const std::string& text);
std::string show_seconds(std::chrono::milliseconds time);
// "64K"; K, M and G are powers of 1024.
size_t parse_bytes(const std::string& text, size_t lowest, size_t highest, bool power_of_two);
std::vector<std::string> parse_list(const std::string& text);
// Returns the index of `text` among the words.
size_t parse_word(const std::string& text, std::span<const char* const> words);
PortRange parse_ports(const std::string& text);
double parse_tolerance(const std::string& text);

}  // namespace ringwood

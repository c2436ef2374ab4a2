#include "tools/command/numbers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

// As it stands in a sentence: what is empty is seen, what is long is cut.
std::string shown(const std::string& typed) { return typed.empty() ? "\"\"" : typed.substr(0, 40); }

}  // namespace

std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  // 010 is eight to some and ten to others.
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  return value;
}

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

CLI::Validator whole(int64_t least, int64_t most) {
  const auto check = [least, most](const std::string& typed) -> std::string {
    const std::optional<int64_t> value = parse_whole(typed);
    if (value && *value >= least && *value <= most) return "";
    const bool too_large =
        !value && !typed.empty() && typed.find_first_not_of("0123456789") == std::string::npos;
    const std::string range = most == INT64_MAX && !too_large
                                  ? fmt::format("{} or more", least)
                                  : fmt::format("from {} to {}", least, most);
    return fmt::format("{} is not a whole number {}", shown(typed), range);
  };
  return CLI::Validator(check, "");
}

CLI::Validator decimal(double least, double most) {
  const auto check = [least, most](const std::string& typed) -> std::string {
    const std::optional<double> value = parse_decimal(typed);
    if (value && *value >= least && *value <= most) return "";
    return fmt::format("{} is not a number from {} to {}", shown(typed), least, most);
  };
  return CLI::Validator(check, "");
}

size_t parse_bytes(const std::string& option, const std::string& text) {
  static constexpr std::string_view kUnits[] = {"",    "B", "K",  "KB",  "KIB", "M",  "MB",
                                                "MIB", "G", "GB", "GIB", "T",   "TB", "TIB"};
  static constexpr double kMaxBytes = 0x1p62;  // so that the sum of two is a size, too
  // Numbers with a fraction as nccl-tests takes them: 1.5G.
  size_t whole = 0;
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, whole);
  const bool fraction = error == std::errc() && rest != end && *rest == '.';
  if (fraction) rest = std::from_chars(text.data(), end, value, std::chars_format::fixed).ptr;
  std::string unit(rest, end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto known = std::find(std::begin(kUnits), std::end(kUnits), unit);
  const auto row = static_cast<size_t>(known - std::begin(kUnits));
  const size_t shift = row < 2 ? 0 : 10 * ((row + 1) / 3);
  value = std::ldexp(fraction ? value : static_cast<double>(whole), static_cast<int>(shift));
  if (error != std::errc() || known == std::end(kUnits) || value >= kMaxBytes)
    refuse(fmt::format("{} {:?} is not a size; write 512, 64K, 16M, 1.5G or 1T", option, text));
  return fraction ? static_cast<size_t>(value) : whole << shift;
}

}  // namespace ringwood::tools

#include "transports/base/knobs/knob_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/ranges.h>

namespace ringwood {

using std::chrono::milliseconds;

milliseconds parse_seconds(const std::string& text) {
  constexpr double kMaxSeconds = 30.0 * 24 * 3600;
  double seconds = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  bool number = error == std::errc() && end == text.data() + text.size() && std::isfinite(seconds);
  if (!number || seconds < 0.001 || seconds > kMaxSeconds) {
    throw Expected("seconds, from 0.001 to 2592000 (30 days)");
  }
  return milliseconds(std::llround(seconds * 1000));
}

std::string show_seconds(milliseconds time) { return fmt::format("{}", time.count() / 1000.0); }

size_t parse_bytes(const std::string& text, size_t lowest, size_t highest, bool power_of_two) {
  constexpr std::string_view kUnits = "KMG";
  std::string digits = text;
  size_t unit = 1;
  if (size_t at = text.empty() ? kUnits.npos : kUnits.find(text.back()); at != kUnits.npos) {
    unit = size_t{1} << (10 * (at + 1));
    digits.pop_back();
  }
  size_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  bool number =
      error == std::errc() && end == digits.data() + digits.size() && value <= highest / unit;
  value *= number ? unit : 0;
  if (!number || value < lowest || (power_of_two && (value & (value - 1)) != 0)) {
    throw Expected(fmt::format("{} from {} to {} (K, M and G are understood)",
                               power_of_two ? "a power of two" : "bytes", lowest, highest));
  }
  return value;
}

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> items;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, comma - at);
    if (item.empty() && !text.empty()) throw Expected("names separated by single commas");
    if (!item.empty()) items.push_back(std::move(item));
    at = comma + 1;
  }
  return items;
}

size_t parse_word(const std::string& text, std::span<const char* const> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (text == words[i]) return i;
  }
  throw Expected(
      fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back()));
}

PortRange parse_ports(const std::string& text) {
  const size_t dash = text.find('-');
  try {
    const int first = parse_number<int>(text.substr(0, dash), 0, 65535);
    const int last = dash == text.npos ? first : parse_number<int>(text.substr(dash + 1), 0, 65535);
    if (first > last || (first == 0) != (last == 0)) throw Expected();
    return {first, last};
  } catch (const Expected&) {
    throw Expected("ports as first-last, such as 50000-50010, or 0-0 for any");
  }
}

double parse_tolerance(const std::string& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Written so that a NaN fails.
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value < 1)) {
    throw Expected("a relative error, from 0 (exact) to below 1");
  }
  return value;
}

}  // namespace ringwood

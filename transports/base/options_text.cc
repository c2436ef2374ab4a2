#include "transports/base/options_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

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

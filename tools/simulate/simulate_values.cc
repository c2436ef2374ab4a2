#include "tools/simulate/simulate_values.h"

#include <utility>

#include <fmt/format.h>

#include "tools/prediction.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {}  // namespace

double parse_rate(const std::string& what, const std::string& text) {
  constexpr std::pair<char, double> kUnits[] = {{'G', 1e9}, {'M', 1e6}, {'K', 1e3}};
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  for (const auto& [unit, times] : kUnits)
    if (end > 0 && end + 1 == text.size() && text[end] == unit && value > 0 && value < 1e6)
      return value * times;
  refuse(fmt::format("{} \"{}\" is not of the form 150G, in bytes a second with K, M or G", what,
                     text));
}

std::vector<int> group_sizes(const std::string& text) {
  const size_t dots = text.find("..");
  const auto number = [](const std::string& digits) {
    const bool good = !digits.empty() && digits.size() < 6 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
    return good ? std::stoi(digits) : 0;
  };
  const int first = dots == std::string::npos ? 0 : number(text.substr(0, dots));
  const int last = dots == std::string::npos ? 0 : number(text.substr(dots + 2));
  if (first < 1 || last < first || last > kMaxRanks)
    refuse(fmt::format("--scale \"{}\" is not of the form 8..{}", text, kMaxRanks));
  std::vector<int> sizes;
  for (int n = first; n <= last; n *= 2) sizes.push_back(n);
  return sizes;
}

}  // namespace ringwood::tools

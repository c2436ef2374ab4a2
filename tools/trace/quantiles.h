// Of values that are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringwood::tools {

inline double quantile_of(std::vector<double> values, size_t part, size_t parts) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) * part / parts);
  std::ranges::nth_element(values, at);
  return *at;
}
// The lower of the two in the middle.
inline double middle_of(std::vector<double> values) { return quantile_of(std::move(values), 1, 2); }
// What else a machine does only adds to the time of messages, so the quicker ones tell most of the
// link.
inline double quartile_of(std::vector<double> values) {
  return quantile_of(std::move(values), 1, 4);
}

// What is an outlier counts as that much: a machine that stands still once is no steady cost.
inline double steady_sum(const std::vector<double>& values) {
  constexpr double kOutlier = 4;  // times the middle
  if (values.empty()) return 0;
  const double most = kOutlier * middle_of(values);
  double sum = 0;
  for (const double value : values) sum += std::min(value, most);
  return sum;
}

}  // namespace ringwood::tools

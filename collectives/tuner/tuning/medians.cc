#include "collectives/tuner/tuning/medians.h"

#include <algorithm>
#include <cstddef>

namespace ringwood {
namespace {

// The state of splitmix64, which is the same with every library.
uint64_t next(uint64_t& state) {
  uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

double median_of_times(std::vector<double> times) {
  const size_t middle = times.size() / 2;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(times.begin(), at, times.end());
  if (times.size() % 2 != 0) return *at;
  return (*std::max_element(times.begin(), at) + *at) / 2;
}

MeasuredTime measured_time(const std::vector<double>& times, uint64_t seed) {
  std::vector<double> medians, draw(times.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& one : draw) one = times[next(seed) % times.size()];
    medians.push_back(median_of_times(draw));
  }
  std::sort(medians.begin(), medians.end());
  return {median_of_times(times), medians[kResamples * 25 / 1000],
          medians[kResamples * 975 / 1000 - 1]};
}

bool clears(const MeasuredTime& candidate, const MeasuredTime& incumbent, double margin) {
  return candidate.high < incumbent.low * (1 - margin);
}

}  // namespace ringwood

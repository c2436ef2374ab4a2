#include "tools/perf/soak/histogram.h"

#include <algorithm>
#include <cmath>

namespace ringwood::tools {
namespace {

constexpr double kStepsPerOctave = 64;
constexpr double kShortest = 1e-9;  // seconds; the clock's own step

int step_of(double seconds) {
  return static_cast<int>(
      std::ceil(std::log2(std::max(seconds, kShortest) / kShortest) * kStepsPerOctave));
}

double end_of(int step) { return kShortest * std::exp2(step / kStepsPerOctave); }

}  // namespace

void Histogram::add(double seconds) {
  ++steps_[step_of(seconds)];
  ++count_;
  longest_s_ = std::max(longest_s_, seconds);
}

void Histogram::add(const Histogram& other) {
  for (const auto& [step, count] : other.steps_) steps_[step] += count;
  count_ += other.count_;
  longest_s_ = std::max(longest_s_, other.longest_s_);
}

double Histogram::percentile_s(double percent) const {
  const auto wanted =
      static_cast<int64_t>(std::ceil(static_cast<double>(count_) * percent / 100.0));
  int64_t seen = 0;
  for (const auto& [step, count] : steps_) {
    seen += count;
    if (seen >= std::max<int64_t>(wanted, 1)) return std::min(end_of(step), longest_s_);
  }
  return 0;
}

}  // namespace ringwood::tools

// Medians of repeated times, and how sure they are.
//
// An interval is that of the percentile bootstrap: the times are drawn again, with replacement,
// kResamples times, and of the medians of these draws the middle 95 % remain. Draws come from the
// seed, so that all ranks find the same. Pure.
// Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
#pragma once

#include <cstdint>
#include <vector>

namespace ringwood {

inline constexpr int kResamples = 1000;

// Seconds.
struct MeasuredTime {
  double median = 0, low = 0, high = 0;
  bool operator==(const MeasuredTime&) const = default;
};

// The mean of the two in the middle where there is an even number of times; at least one.
double median_of_times(std::vector<double> times);
MeasuredTime measured_time(const std::vector<double>& times, uint64_t seed);

// Whether `candidate` is faster than `incumbent` beyond doubt: its whole interval lies below that
// of the other one, by `margin` of it.
bool clears(const MeasuredTime& candidate, const MeasuredTime& incumbent, double margin);

}  // namespace ringwood

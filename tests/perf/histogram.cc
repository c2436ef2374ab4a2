// Percentiles of times that are counted in steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tools/perf/soak/histogram.h"

namespace ringwood::tools {
namespace {

TEST(Histogram, PercentilesAreWithinAStepOfTheTimes) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> times(std::log(50e-6), 1.5);
  std::vector<double> all;
  Histogram histogram;
  for (int i = 0; i < 20000; ++i) {
    all.push_back(times(random));
    histogram.add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9}) {
    const auto place = static_cast<size_t>(std::ceil(percent / 100 * 20000)) - 1;
    EXPECT_GE(histogram.percentile_s(percent), all[place] * (1 - 1e-9)) << percent;
    EXPECT_LE(histogram.percentile_s(percent), all[place] * 1.012) << percent;
  }
  EXPECT_EQ(histogram.percentile_s(100), all.back());
  EXPECT_EQ(histogram.longest_s(), all.back());
  EXPECT_EQ(histogram.count(), 20000);
}

TEST(Histogram, TwoOfThemAreAsOneOfBoth) {
  Histogram one, other, both;
  for (int i = 1; i <= 1000; ++i) {
    const double time = i * 1e-6;
    (i % 3 == 0 ? one : other).add(time);
    both.add(time);
  }
  one.add(other);
  EXPECT_EQ(one.count(), both.count());
  for (const double percent : {0.0, 10.0, 50.0, 99.0, 100.0})
    EXPECT_EQ(one.percentile_s(percent), both.percentile_s(percent)) << percent;
}

TEST(Histogram, NothingAndTimesBelowTheClock) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile_s(50), 0);
  histogram.add(0);
  histogram.add(-1e-9);  // two clocks that differ by their error
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_LE(histogram.percentile_s(50), 1e-9);
}

}  // namespace
}  // namespace ringwood::tools

// Durations of any unit as nanoseconds, and deadlines after them.
#include "transports/base/clock.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

using namespace std::chrono;

TEST(Clock, WhatNanosecondsCannotExpressIsTheLongest) {
  EXPECT_EQ(saturated(milliseconds::max()), Duration::max());
  EXPECT_EQ(saturated(days(999'999'999)), Duration::max());  // Python's timedelta.max
  EXPECT_EQ(saturated(duration<double>(1e300)), Duration::max());
  EXPECT_EQ(saturated(milliseconds::min()), Duration::min());
  EXPECT_EQ(saturated(milliseconds(1500)), nanoseconds(1'500'000'000));
  EXPECT_EQ(saturated(Duration::max()), Duration::max());
  EXPECT_EQ(saturated(hours(-1)), -nanoseconds(3'600'000'000'000));
}

TEST(Clock, TheLongestDeadlinesNeverPass) {
  for (const auto longest : {milliseconds::max(), milliseconds(days(999'999'999))}) {
    EXPECT_EQ(Deadline::after(longest).at(), Deadline::never().at());
    EXPECT_EQ(Deadline::never().within(longest).at(), Deadline::never().at());
    EXPECT_FALSE(Deadline::after(longest).passed());
    EXPECT_GT(seconds_in(longest), 1e12);
  }
  EXPECT_TRUE(Deadline::after(milliseconds::min()).passed());
}

}  // namespace
}  // namespace ringwood

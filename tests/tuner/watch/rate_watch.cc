// When a path is reported: by counts of the test's own.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/tuner/watch/rate_watch.h"

namespace ringwood {
namespace {

// 1 GB/s, messages of 1 MiB, looked at every 250 ms.
class Path {
 public:
  explicit Path(double sharing = 1) : watch_({.latency = 10e-6, .rate = 1e9}, sharing) {}

  // For that long at that rate; what is reported.
  std::vector<RateWatch::Change> carry(double seconds, double rate, double message = 1 << 20,
                                       double blocked = 0, int at_once = 1) {
    std::vector<RateWatch::Change> changes;
    for (double t = 0; t < seconds; t += 0.25) {
      bytes_ += rate * 0.25 * (1 - blocked);
      messages_ += rate * 0.25 * (1 - blocked) / message;
      busy_ += 0.25;
      blocked_ += 0.25 * blocked;
      const auto now = watch_.look(
          {static_cast<uint64_t>(messages_), static_cast<uint64_t>(bytes_), busy_, blocked_},
          port_busy_ += 0.25 * at_once);
      if (now) changes.push_back(*now);
    }
    return changes;
  }
  void renew() { watch_.renew(); }
  void measured(double rate) { watch_.measured({.latency = 10e-6, .rate = rate}); }

 private:
  RateWatch watch_;
  double bytes_ = 0, messages_ = 0, busy_ = 0, blocked_ = 0, port_busy_ = 0;
};

TEST(RateWatch, ReportsARateThatHasHalvedOrDoubledOnce) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  EXPECT_TRUE(path.carry(5, 0.5e9).empty()) << "more than half";
  const auto slow = path.carry(20, 0.2e9);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_NEAR(slow[0].rate, 0.2e9, 1e7);
  EXPECT_NEAR(slow[0].expected, 0.9e9, 1e7);
  EXPECT_TRUE(path.carry(5, 0.35e9).empty()) << "less than twice";
  const auto back = path.carry(20, 0.9e9);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_NEAR(back[0].rate, 0.9e9, 1e7);
}

TEST(RateWatch, ADipOfOneWindowIsNotReported) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(path.carry(0.5, 0.1e9).empty());
    EXPECT_TRUE(path.carry(3, 0.9e9).empty());
  }
}

TEST(RateWatch, AFirstRateIsComparedWithTheParameters) {
  EXPECT_EQ(Path().carry(20, 0.7e9).size(), 1u);
  EXPECT_EQ(Path().carry(20, 1.3e9).size(), 1u);
  EXPECT_TRUE(Path().carry(20, 0.85e9).empty());
  EXPECT_TRUE(Path(2).carry(20, 0.45e9).empty()) << "another rank may use the rest";
  EXPECT_EQ(Path(2).carry(20, 0.3e9).size(), 1u);
  EXPECT_TRUE(Path().carry(20, 0.3e9, 1 << 20, 0, 3).empty()) << "two more paths of this rank";
  Path renewed;
  renewed.renew();
  EXPECT_TRUE(renewed.carry(20, 0.7e9).empty()) << "another row may share the path otherwise";
  EXPECT_EQ(renewed.carry(20, 0.3e9).size(), 1u);
  Path too_slow;
  too_slow.renew();
  EXPECT_EQ(too_slow.carry(20, 0.3e9).size(), 1u) << "but not in any way";
}

TEST(RateWatch, AProbeThatSeesNothingDoesNotMakeTheSlowRateTheExpectedOne) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  for (int i = 0; i < 3; ++i) {
    const auto slow = path.carry(20, 0.2e9);
    ASSERT_EQ(slow.size(), 1u) << i;
    EXPECT_NEAR(slow[0].expected, 0.9e9, 1e7);
    path.measured(1.1e9);  // wrong
  }
  EXPECT_EQ(path.carry(20, 0.2e9).size(), 1u);
  path.measured(0.2e9);  // right
  EXPECT_TRUE(path.carry(20, 0.19e9).empty());
  EXPECT_EQ(path.carry(20, 0.9e9).size(), 1u) << "the return";
}

TEST(RateWatch, WhatWasNeverCarriedIsNotInsistedOn) {
  Path path;
  EXPECT_EQ(path.carry(20, 0.6e9).size(), 1u);
  path.measured(1e9);
  EXPECT_TRUE(path.carry(20, 0.6e9).empty());
  Path slower;
  EXPECT_EQ(slower.carry(20, 0.3e9).size(), 1u);
  slower.measured(1e9);
  EXPECT_EQ(slower.carry(20, 0.3e9).size(), 1u) << "unless it is much more";
}

TEST(RateWatch, AProbeThatSeesTooLittleIsContradictedByWhatIsCarried) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  path.measured(0.25e9);  // wrong
  const auto more = path.carry(20, 0.9e9);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_NEAR(more[0].expected, 0.25e9, 1e6);
  path.measured(0.25e9);  // wrong again
  EXPECT_EQ(path.carry(20, 0.9e9).size(), 1u);
  path.renew();  // the table has changed for that
  EXPECT_EQ(path.carry(20, 0.5e9).size(), 1u);
  path.measured(1e9);
  path.renew();
  EXPECT_TRUE(path.carry(20, 0.9e9).empty());
}

TEST(RateWatch, BeyondTheParametersAFifthIsEnough) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.85e9).empty());
  EXPECT_EQ(path.carry(20, 1.3e9).size(), 1u);
  EXPECT_TRUE(path.carry(20, 1.3e9).empty()) << "once";
  Path blocked;
  EXPECT_TRUE(blocked.carry(5, 0.85e9).empty());
  EXPECT_TRUE(blocked.carry(20, 1.3e9, 1 << 20, 0.3).empty()) << "less than that, by the clock";
}

TEST(RateWatch, AnOutageIsALowRate) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  EXPECT_TRUE(path.carry(1.5, 0).empty());
  ASSERT_EQ(path.carry(20, 0).size(), 1u);
  EXPECT_EQ(path.carry(5, 0.9e9).size(), 1u) << "the return";
}

TEST(RateWatch, PathsThatAreDownAreReportedAtOnce) {
  RateWatch watch({.rate = 1e9}, 1);
  LinkTraffic traffic;
  EXPECT_FALSE(watch.look(traffic));
  traffic.carrying = 0.5;
  const auto down = watch.look(traffic);
  ASSERT_TRUE(down);
  EXPECT_EQ(down->rate, 0.5e9);
  EXPECT_EQ(down->expected, 1e9);
  EXPECT_FALSE(watch.look(traffic)) << "once";
  traffic.carrying = 1;
  const auto up = watch.look(traffic);
  ASSERT_TRUE(up);
  EXPECT_EQ(up->rate, 1e9);
  EXPECT_EQ(up->expected, 0.5e9);
}

TEST(RateWatch, SaysNothingOfAPeerThatDoesNotRead) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  EXPECT_TRUE(path.carry(20, 0.9e9, 1 << 20, 0.9).empty());
  EXPECT_TRUE(path.carry(20, 0.9e9, 1 << 20, 0.4).empty()) << "the time in which it read counts";
}

TEST(RateWatch, SaysNothingOfShortMessages) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  EXPECT_TRUE(path.carry(20, 0.1e9, 4 << 10).empty());
  EXPECT_EQ(path.carry(20, 0.1e9).size(), 1u);
}

}  // namespace
}  // namespace ringwood

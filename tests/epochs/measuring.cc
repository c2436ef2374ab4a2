// When a path is reported, when the network is measured again, and what follows from what is found.
// All with times and counts of the test's own.
#include <cmath>

#include <gtest/gtest.h>

#include "collectives/epochs/measuring.h"
#include "collectives/epochs/rate_watch.h"
#include "collectives/epochs/row_changes.h"
#include "collectives/runtime/plan_cache.h"

namespace ringwood {
namespace {

// ---- a path -------------------------------------------------------------------------------------

// 1 GB/s, messages of 1 MiB, looked at every 250 ms.
class Path {
 public:
  explicit Path(double sharing = 1) : watch_({.latency = 10e-6, .rate = 1e9}, sharing) {}

  // For that long at that rate; what is reported.
  std::vector<RateWatch::Change> carry(double seconds, double rate, double message = 1 << 20,
                                       double held = 0, int at_once = 1) {
    std::vector<RateWatch::Change> changes;
    for (double t = 0; t < seconds; t += 0.25) {
      bytes_ += rate * 0.25 * (1 - held);
      messages_ += rate * 0.25 * (1 - held) / message;
      busy_ += 0.25;
      held_ += 0.25 * held;
      const auto now = watch_.look(
          {static_cast<uint64_t>(messages_), static_cast<uint64_t>(bytes_), busy_, held_},
          port_busy_ += 0.25 * at_once);
      if (now) changes.push_back(*now);
    }
    return changes;
  }
  void renew() { watch_.renew(); }
  void measured(double rate) { watch_.measured({.latency = 10e-6, .rate = rate}); }

 private:
  RateWatch watch_;
  double bytes_ = 0, messages_ = 0, busy_ = 0, held_ = 0, port_busy_ = 0;
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
  Path held;
  EXPECT_TRUE(held.carry(5, 0.85e9).empty());
  EXPECT_TRUE(held.carry(20, 1.3e9, 1 << 20, 0.3).empty()) << "less than that, by the clock";
}

TEST(RateWatch, AnOutageIsALowRate) {
  Path path;
  EXPECT_TRUE(path.carry(5, 0.9e9).empty());
  EXPECT_TRUE(path.carry(1.5, 0).empty());
  ASSERT_EQ(path.carry(20, 0).size(), 1u);
  EXPECT_EQ(path.carry(5, 0.9e9).size(), 1u) << "the return";
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

// ---- when to measure ----------------------------------------------------------------------------

constexpr Duration kInterval = std::chrono::seconds(30);
constexpr Measuring::Outcome kChanged{.changed = true, .confirmed = true};
constexpr Measuring::Outcome kSame{.confirmed = true};

class Times {
 public:
  // Seconds from the first call on until it is time to measure; -1: not within 20 minutes.
  double until_due(Measuring& measuring) {
    for (int tick = 0; tick < 4800; ++tick, now += std::chrono::milliseconds(250))
      if (auto words = measuring.begin(now)) {
        said = *words;
        return tick * 0.25;
      }
    return -1;
  }
  Clock::time_point now = Clock::now();
  std::string said;
};

TEST(Measuring, WaitsForMoreReports) {
  Measuring measuring(kInterval);
  Times times;
  EXPECT_EQ(times.until_due(measuring), -1);
  measuring.report("a", times.now);
  measuring.report("b", times.now + std::chrono::milliseconds(900));
  EXPECT_EQ(times.until_due(measuring), 1);
  EXPECT_EQ(times.said, "a; b");
  EXPECT_EQ(times.until_due(measuring), -1) << "twice for one report";
}

TEST(Measuring, KeepsItsIntervalAfterAChange) {
  Measuring measuring(kInterval);
  Times times;
  for (int i = 0; i < 5; ++i) {
    measuring.report("a", times.now);
    EXPECT_EQ(times.until_due(measuring), i == 0 ? 1 : 30) << i;
    measuring.end(kChanged);
  }
}

TEST(Measuring, ComesMoreAndMoreSeldomWhereNothingChanges) {
  Measuring measuring(kInterval);
  Times times;
  for (const double seconds : {1, 60, 120, 240, 480, 480}) {
    measuring.report("a", times.now);
    EXPECT_EQ(times.until_due(measuring), seconds);
    measuring.end(kSame);
  }
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 480);
  measuring.end(kChanged);
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 30);
}

TEST(Measuring, AnswersWhatIsReportedMeanwhile) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  measuring.report("b", times.now);
  measuring.end(kChanged);
  EXPECT_EQ(times.until_due(measuring), -1);
}

TEST(Measuring, ComesAgainWhereTheRanksDidNotAgree) {
  Measuring measuring(kInterval);
  Times times;
  measuring.give_up(times.now);
  EXPECT_EQ(times.until_due(measuring), -1) << "nothing was reported";
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  measuring.give_up(times.now);
  EXPECT_EQ(times.until_due(measuring), 60);
  EXPECT_EQ(times.said, "a");
}

TEST(Measuring, NamesAFewReports) {
  Measuring measuring(kInterval);
  Times times;
  for (int i = 0; i < 1000; ++i) measuring.report(std::to_string(i), times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  EXPECT_EQ(times.said, "0; 1; 2; 3; and others");
}

TEST(Measuring, RepeatsWhatDiffersFromTheMeasurementBefore) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  EXPECT_TRUE(measuring.reported());
  measuring.end({.changed = true});
  EXPECT_EQ(times.until_due(measuring), 30);
  EXPECT_FALSE(measuring.reported());
  EXPECT_NE(times.said, "");
  measuring.end({});
  EXPECT_EQ(times.until_due(measuring), 60) << "it differs again";
  measuring.end(kSame);
  EXPECT_EQ(times.until_due(measuring), -1);
  measuring.report("b", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  EXPECT_EQ(times.said, "b");
}

TEST(Measuring, TriesNowAndThenWhetherItIsAsAtFirst) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  for (int i = 0; i < 3; ++i) {
    measuring.end({.changed = i == 0, .confirmed = true, .worse = true});
    EXPECT_EQ(times.until_due(measuring), 480);
    EXPECT_FALSE(measuring.reported());
  }
  measuring.end({.changed = true, .confirmed = true});
  EXPECT_EQ(times.until_due(measuring), -1);
}

TEST(Measuring, IsNeverDueWithoutAnInterval) {
  Measuring measuring(Duration::zero());
  Times times;
  measuring.report("a", times.now);
  measuring.end({});
  EXPECT_EQ(times.until_due(measuring), -1);
}

// ---- what follows -------------------------------------------------------------------------------

class Weighed : public ::testing::Test {
 protected:
  Weighed() {
    machine_.hosts = {0, 1, 2, 3};
    machine_.net.nic = 50e6;
    plans_ = std::make_unique<PlanCache>(0, 4, machine_, Options());
    call(4 << 20);
  }
  std::string call(size_t bytes) {
    const CollectiveArgs sum{Collective::all_reduce, DataType::uint8, ReduceOp::sum, 0, bytes, {}};
    return plans_->get(sum, "", 0, false)->algorithm;
  }
  NetworkParameters slow(double rate) const {
    NetworkParameters net = machine_.net;
    net.exceptions = {{3, rate, "d"}};
    return net;
  }
  // The change that is proposed, made.
  std::string change(const NetworkParameters& measured) {
    const Proposal proposal = plans_->weigh(measured);
    if (proposal.parameters.empty()) return "";
    plans_->prepare(++epoch_, proposal.parameters);
    Plan like;
    like.args.collective = Collective::barrier;
    (void)plans_->plan_again(like, epoch_);
    return proposal.words;
  }

  MachineModel machine_;
  std::unique_ptr<PlanCache> plans_;
  uint32_t epoch_ = 0;
};

TEST_F(Weighed, ASlowHostChangesTheTableAndItsReturnChangesItBack) {
  const std::string first = call(4 << 20);
  const std::string words = change(slow(0.25));
  EXPECT_NE(words.find("d reaches 25 % of its rate: all_reduce of 4194304 B by "), words.npos)
      << words;
  const std::string other = call(4 << 20);
  EXPECT_NE(first, other);
  EXPECT_EQ(change(slow(0.24)), "") << "the same again";
  NetworkParameters again = machine_.net;
  again.nic *= 0.93;
  again.latency *= 1.4;
  EXPECT_NE(change(again).find("d reaches its rate again"), words.npos);
  EXPECT_EQ(call(4 << 20), first);
  EXPECT_EQ(change(again), "") << "nothing is left to change";
}

TEST_F(Weighed, WhatGainsLessThanATenthChangesNothing) {
  NetworkParameters half = machine_.net;
  half.nic *= 0.5;  // of all hosts: no row is better for that
  EXPECT_EQ(change(half), "");
  EXPECT_EQ(change(slow(0.97)), "");
}

TEST(Alike, AreNetworksThatDifferAsMeasurementsDo) {
  NetworkParameters a, b;
  EXPECT_TRUE(alike(a, b));
  b.nic = a.nic * 1.15;
  b.latency = a.latency * 2;
  EXPECT_TRUE(alike(a, b));
  b.nic = a.nic * 1.3;
  EXPECT_FALSE(alike(a, b));
  EXPECT_FALSE(alike(b, a));
  b = a;
  b.exceptions = {{1, 0.5, "x"}};
  EXPECT_FALSE(alike(a, b));
  a.exceptions = {{1, 0.55, "x"}};
  EXPECT_TRUE(alike(a, b));
  b = a;
  b.far = PathParameters{};
  EXPECT_FALSE(alike(a, b));
}

TEST(Alike, WorseIsWhatSendsLessSomewhere) {
  NetworkParameters first, now;
  EXPECT_FALSE(worse(now, first));
  now.nic = first.nic * 1.3;
  EXPECT_FALSE(worse(now, first));
  EXPECT_TRUE(worse(first, now));
  now = first;
  now.exceptions = {{1, 0.5, "x"}};
  EXPECT_TRUE(worse(now, first));
  EXPECT_FALSE(worse(first, now));
  first.exceptions = {{1, 0.55, "x"}};
  EXPECT_FALSE(worse(now, first));
  first.exceptions = {{1, 0.55, "x", 1}};
  EXPECT_TRUE(worse(now, first)) << "another rail";
}

TEST(Alike, AMeasurementIsOfTheParametersOfTheEpochBefore) {
  MachineModel machine;
  machine.hosts = {0, 1, 2, 3};
  PlanCache plans(0, 4, machine, Options());
  Plan like;
  like.args.collective = Collective::barrier;
  machine.net.nic = 1e7;
  machine.net.exceptions = {{1, 0.5, "x"}};
  plans.prepare(1, print(machine));
  plans.prepare(2, "");  // of epoch 1, which is not entered yet
  EXPECT_EQ(plans.plan_again(like, 2)->epoch, 2u);
  EXPECT_TRUE(plans.proposal(machine).parameters.empty()) << "it has these";
}

}  // namespace
}  // namespace ringwood

// When the network is measured again, and what follows from what is found. All with times of the
// test's own.
#include <gtest/gtest.h>

#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/tuner/watch/measuring.h"
#include "collectives/tuner/watch/row_changes.h"

namespace ringwood {
namespace {

// ---- when to measure ----------------------------------------------------------------------------

constexpr Duration kInterval = std::chrono::seconds(30);
constexpr Measuring::Outcome kChanged{.changes = true, .confirmed = true};
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
    measuring.end(kChanged, times.now);
  }
}

TEST(Measuring, ComesMoreAndMoreSeldomWhereNothingChanges) {
  Measuring measuring(kInterval);
  Times times;
  for (const double seconds : {1, 60, 120, 240, 480, 480}) {
    measuring.report("a", times.now);
    EXPECT_EQ(times.until_due(measuring), seconds);
    measuring.end(kSame, times.now);
  }
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 480);
  measuring.end(kChanged, times.now);
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 30);
}

TEST(Measuring, AnswersWhatIsReportedMeanwhile) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  measuring.report("b", times.now);
  measuring.end(kChanged, times.now);
  EXPECT_EQ(times.until_due(measuring), -1);
  measuring.report("c", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  measuring.report("d", times.now + std::chrono::milliseconds(1));
  measuring.end(kChanged, times.now);
  EXPECT_EQ(times.until_due(measuring), 30) << "it came later than what was measured";
  EXPECT_EQ(times.said, "d");
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
  measuring.end({.changes = true}, times.now);
  EXPECT_EQ(times.until_due(measuring), 30);
  EXPECT_FALSE(measuring.reported());
  EXPECT_NE(times.said, "");
  measuring.end({}, times.now);
  EXPECT_EQ(times.until_due(measuring), 60) << "it differs again";
  measuring.end(kSame, times.now);
  EXPECT_EQ(times.until_due(measuring), -1);
  measuring.report("b", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  EXPECT_EQ(times.said, "b");
}

TEST(Measuring, GivesWayToMeasurementsThatNeverAgree) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  for (const double seconds : {30, 30, 60, 120, 240, 480, 480}) {
    measuring.end({.changes = true}, times.now);
    EXPECT_EQ(times.until_due(measuring), seconds);
  }
}

TEST(Measuring, TriesNowAndThenWhetherItIsAsAtFirst) {
  Measuring measuring(kInterval);
  Times times;
  measuring.report("a", times.now);
  EXPECT_EQ(times.until_due(measuring), 1);
  for (int i = 0; i < 3; ++i) {
    measuring.end({.changes = i == 0, .confirmed = true, .worse = true}, times.now);
    EXPECT_EQ(times.until_due(measuring), 480);
    EXPECT_FALSE(measuring.reported());
  }
  measuring.end({.changes = true, .confirmed = true}, times.now);
  EXPECT_EQ(times.until_due(measuring), -1);
}

TEST(Measuring, IsNeverDueWithoutAnInterval) {
  Measuring measuring(Duration::zero());
  Times times;
  measuring.report("a", times.now);
  measuring.end({}, times.now);
  EXPECT_EQ(times.until_due(measuring), -1);
}

// ---- what follows -------------------------------------------------------------------------------

class Weighed : public ::testing::Test {
 protected:
  Weighed() {
    machine_.hosts = {0, 1, 2, 3};
    machine_.net.nic = 50e6;
    tuner_ = std::make_shared<ModelTuner>(machine_, Options());
    plans_ = std::make_unique<GroupPlanner>(0, 4, tuner_);
    call(4 << 20);
  }
  std::string call(size_t bytes) {
    const CollectiveArgs sum{Collective::all_reduce, DataType::uint8, ReduceOp::sum, 0, bytes, {}};
    return plans_->get({sum, {}})->form.algorithm;
  }
  NetworkParameters slow(double rate) const {
    NetworkParameters net = machine_.net;
    net.exceptions = {{3, rate, "d"}};
    return net;
  }
  // The change that is proposed, made.
  std::string change(const NetworkParameters& measured) {
    const TunerInUse now = plans_->in_use();
    const Proposal proposal = now.tuner->weigh(measured, now.choices, false);
    if (proposal.parameters.empty()) return "";
    plans_->prepare(++epoch_, proposal.parameters);
    Plan like;
    like.key.args.collective = Collective::barrier;
    (void)plans_->plan_again(like, epoch_);
    return proposal.words;
  }

  MachineModel machine_;
  std::shared_ptr<const ModelTuner> tuner_;
  std::unique_ptr<GroupPlanner> plans_;
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
  GroupPlanner plans(0, 4, std::make_shared<ModelTuner>(machine, Options{}));
  Plan like;
  like.key.args.collective = Collective::barrier;
  machine.net.nic = 1e7;
  machine.net.exceptions = {{1, 0.5, "x"}};
  plans.prepare(1, print(machine));
  plans.prepare(2, "");  // of epoch 1, which is not entered yet
  EXPECT_EQ(plans.plan_again(like, 2)->epoch, 2u);
  const auto now = std::dynamic_pointer_cast<const ModelTuner>(plans.in_use().tuner);
  EXPECT_TRUE(now->propose(machine.net, {}).parameters.empty()) << "it has these";
}

}  // namespace
}  // namespace ringwood

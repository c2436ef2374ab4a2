// What decides between candidates of which the times are known.
#include "collectives/tuner/choice/decide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ringwood {
namespace {

// Of the same work.
Contender taking(double seconds, double shared) { return {seconds, shared, 1, 1, 0, 0}; }

size_t chosen(const std::vector<Contender>& all) { return decide(all).chosen.value_or(all.size()); }

TEST(Decide, TheLeastRegretWithEitherKindOfBuffers) {
  EXPECT_EQ(chosen({taking(1, 3), taking(1.4, 1.4), taking(3, 1)}), 1u);
  const Decision d = decide({taking(1, 3), taking(1.4, 1.4), taking(3, 1)});
  EXPECT_EQ(d.why_not[0], std::string("slower with shared buffers"));
  EXPECT_EQ(d.why_not[1], nullptr);
  EXPECT_EQ(d.why_not[2], std::string("slower"));
}

// Two that are as bad with shared buffers, as something else is far better there.
TEST(Decide, WhatIsSlowerWithOneKindAndNotFasterWithTheOtherIsNotChosen) {
  Contender slower = taking(1.18, 1.99);
  slower.busy = 0.1;  // which would win otherwise
  const std::vector<Contender> all = {taking(1, 2), slower, taking(2.5, 1)};
  EXPECT_EQ(chosen(all), 0u);
  EXPECT_EQ(decide(all).why_not[1], std::string("slower with private buffers"));
  const std::vector<Contender> shared = {taking(2, 1), {1.99, 1.18, 1, 0.1, 0, 0}, taking(1, 2.5)};
  EXPECT_EQ(chosen(shared), 0u);
  EXPECT_EQ(decide(shared).why_not[1], std::string("slower with shared buffers"));
}

TEST(Decide, AmongEqualsTheLeastWorkThenLatenciesThenSendersThenTheFirst) {
  std::vector<Contender> all(4, taking(1, 1));
  EXPECT_EQ(chosen(all), 0u);
  all[0].far_senders = 3;
  EXPECT_EQ(chosen(all), 1u);
  all[1].latencies = 0.2;
  EXPECT_EQ(chosen(all), 2u);
  all[3].busy = 0.5;
  EXPECT_EQ(chosen(all), 3u);
  all[3].seconds = 1.06;  // more than the model's margin
  EXPECT_EQ(chosen(all), 2u);
}

TEST(Decide, AHandicapCountsAndIsNamed) {
  std::vector<Contender> all = {taking(1, 1), taking(1.2, 1.2)};
  all[0].handicap = 1.3;
  EXPECT_EQ(chosen(all), 1u);
  EXPECT_EQ(decide(all).why_not[0], std::string("rounds sums more often than its speed is worth"));
}

TEST(Decide, NothingIsChosenWhereNothingIsKnown) {
  EXPECT_FALSE(decide({}).chosen);
  EXPECT_FALSE(decide({taking(INFINITY, INFINITY)}).chosen);
  EXPECT_EQ(decide({taking(INFINITY, INFINITY)}).why_not[0], std::string("slower"));
  EXPECT_EQ(chosen({taking(INFINITY, INFINITY), taking(1, 1)}), 1u);
  EXPECT_EQ(chosen({taking(0, 0), taking(0, 0)}), 0u);  // as of one rank
}

}  // namespace
}  // namespace ringwood

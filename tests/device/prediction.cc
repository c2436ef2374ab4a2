// What a device group takes, predicted from its programs, against closed forms: what links allow,
// latencies, thresholds of packets. See device_choice.cc for several islands.
#include "collectives/device/predict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "collectives/device/bind_words.h"
#include "collectives/device/block_events.h"
#include "tests/device/predictions.h"
#include "transports/base/error.h"

namespace ringwood::device {
namespace {

double least(const RowWay& of, size_t bytes, int n, const IslandModel& model) {
  double least = INFINITY;
  for (const int blocks : block_counts())
    least = std::min(least, predicted(of, bytes, n, blocks, model).seconds);
  return least;
}

// ---- closed forms of the direct all-reduce ------------------------------------------------------

TEST(DevicePrediction, LargeAllReducesTakeWhatTheLinksAllow) {
  for (const std::string& name : island_presets())
    for (const int n : {2, 4, 8}) {
      const IslandModel model = island_preset(name);
      const double bytes = 256 * kMiB, moved = 2.0 * (n - 1) / n * bytes;
      const DevicePrediction p = predicted({}, 256 * kMiB, n, 16, model);
      EXPECT_GE(p.seconds, moved / model.link) << name << ' ' << n;
      EXPECT_LE(p.seconds, moved / model.link * 1.1) << name << ' ' << n;
      for (int rank = 0; rank < n; ++rank) {
        EXPECT_DOUBLE_EQ(p.in_bytes[static_cast<size_t>(rank)], moved);
        EXPECT_DOUBLE_EQ(p.out_bytes[static_cast<size_t>(rank)], moved);
      }
    }
}

TEST(DevicePrediction, OneBlockTakesWhatItCanMove) {
  const IslandModel model;
  const double moved = 2.0 * 7 / 8 * 16 * kMiB;
  EXPECT_NEAR(predicted({}, 16 * kMiB, 8, 1).seconds, moved / model.block, 10e-6);
  EXPECT_NEAR(predicted({}, 16 * kMiB, 8, 4).seconds, moved / model.block / 4, 10e-6);
}

TEST(DevicePrediction, SmallOnesAreLaunchAndLatencies) {
  for (const std::string& name : island_presets()) {
    const IslandModel m = island_preset(name);
    const double slack = 0.05e-6;
    EXPECT_NEAR(predicted({Collective::all_reduce, "one_shot", true}, 8, 8, 1, m).seconds,
                m.launch + m.flag, slack);
    EXPECT_NEAR(predicted({}, 8, 8, 1, m).seconds, m.launch + m.flag + m.fence + m.flag, slack);
    // Two rounds of packets.
    EXPECT_NEAR(predicted({Collective::all_reduce, "direct", true}, 8, 8, 1, m).seconds,
                m.launch + 2 * m.flag, slack);
  }
}

// Each rank waits for the one before it, and pushes to the next.
TEST(DevicePrediction, AChainIsItsHopsOneByOne) {
  const IslandModel m;
  const int n = 5, blocks = 2;
  const double pass = 4.0 * kMiB / (blocks * m.block);
  EXPECT_NEAR(predicted({Collective::broadcast, "chain"}, 4 * kMiB, n, blocks).seconds,
              m.launch + m.flag + (n - 1) * (pass + m.fence + m.flag), 1e-9);
}

// What is stored is pushed, what is added is pulled: either way it leaves where it was.
TEST(DevicePrediction, LinksHaveTwoDirections) {
  const double bytes = kMiB;
  const DevicePrediction told = predicted({Collective::broadcast, "linear"}, kMiB, 5, 4);
  const DevicePrediction added = predicted({Collective::reduce, "linear"}, kMiB, 5, 4);
  EXPECT_EQ(told.out_bytes, (std::vector{4 * bytes, 0., 0., 0., 0.}));
  EXPECT_EQ(told.in_bytes, (std::vector{0., bytes, bytes, bytes, bytes}));
  EXPECT_EQ(added.in_bytes, (std::vector{4 * bytes, 0., 0., 0., 0.}));
  EXPECT_EQ(added.out_bytes, (std::vector{0., bytes, bytes, bytes, bytes}));
}

// Segments that are not alike are not taken for each other: what a rank receives is what the words
// of all ranks move there.
TEST(DevicePrediction, EveryByteOfUnevenSegmentsIsCounted) {
  const int n = 4, blocks = 8;
  DeviceRows rows;
  const ProvedProgram* const proved =
      rows.find(*find_algorithm(Collective::all_reduce, "direct"), n, 0, false);
  for (size_t count = 1; count < 100; ++count) {
    const CollectiveArgs args = call(Collective::all_reduce, 4 * count, n);
    std::vector<double> in(n, 0.0);
    for (int rank = 0; rank < n; ++rank) {
      const BoundWords bound = bind_words(*proved, rank, args, blocks, {});
      for (const Word& word : bound.words)
        for (int k = 0; word.verb == WordVerb::pass && k < word.dsts + word.srcs; ++k) {
          const int other = bound.operands[word.operand + static_cast<size_t>(k)].rank;
          if (other != rank)
            in[static_cast<size_t>(k < word.dsts ? other : rank)] +=
                static_cast<double>(word.bytes);
        }
    }
    EXPECT_EQ(predict(*proved, args, blocks, {}).in_bytes, in) << count;
    EXPECT_DOUBLE_EQ(std::reduce(in.begin(), in.end()), 2.0 * 3 * 4 * static_cast<double>(count));
  }
}

// The memory of a GPU holds up what its links would not.
TEST(DevicePrediction, MemoryIsShared) {
  IslandModel slow;
  slow.memory = 100e9;
  const double bytes = 64.0 * kMiB;
  // All of a buffer is read once and written once.
  EXPECT_NEAR(predicted({}, 64 * kMiB, 8, 32, slow).seconds, 2 * bytes / slow.memory, 10e-6);
}

// ---- packets ------------------------------------------------------------------------------------

// Where packets begin to lose to the bulk of `direct`.
size_t threshold(const char* row, int n, const IslandModel& model) {
  size_t wins = 128, loses = 16 * kMiB;
  while (loses - wins > 1024) {
    const size_t middle = (wins + loses) / 2 / 128 * 128;
    const bool better =
        least({Collective::all_reduce, row, true}, middle, n, model) < least({}, middle, n, model);
    (better ? wins : loses) = middle;
  }
  return wins;
}

// NCCL's model of its kernels has 22 KB for 8 GPUs of Hopper, 45 KB for 4, 89 KB for 2. It counts a
// rank's own data among the packets, n times the buffer where we move n - 1 times; of 2 ranks that
// is twice as much.
TEST(DevicePrediction, PacketsWinBelowAThresholdAndLoseAboveIt) {
  struct Anchor {
    int n;
    double nccl, factor;
  };
  const IslandModel model;
  for (const Anchor& anchor : {Anchor{8, 22e3, 2}, Anchor{4, 45e3, 2}, Anchor{2, 89e3, 2.5}}) {
    const size_t at = threshold("one_shot", anchor.n, model);
    fmt::print(
        "{} GPUs: one_shot as packets loses to direct in bulk at {:.0f} KB; NCCL's model: "
        "{:.0f} KB\n",
        anchor.n, static_cast<double>(at) / 1e3, anchor.nccl / 1e3);
    EXPECT_LE(static_cast<double>(at), anchor.nccl * anchor.factor);
    EXPECT_GE(static_cast<double>(at), anchor.nccl / anchor.factor);
    const RowWay packets{Collective::all_reduce, "one_shot", true};
    EXPECT_LT(least(packets, at / 4, anchor.n, model), least({}, at / 4, anchor.n, model));
    EXPECT_GT(least(packets, at * 4, anchor.n, model), least({}, at * 4, anchor.n, model));
  }
}

TEST(DevicePrediction, PacketsCarryHalf) {
  const DevicePrediction p = predicted({Collective::all_reduce, "one_shot", true}, kMiB, 4, 8, {});
  for (const double bytes : p.in_bytes) EXPECT_DOUBLE_EQ(bytes, 2.0 * 3 * kMiB);
}

// ---- every row ----------------------------------------------------------------------------------

TEST(DevicePrediction, NoRowPassesMoreThanItsLinks) {
  const IslandModel model;
  for (const int n : {2, 5, 8})
    for (const AlgorithmRow* row : rows_with_data(n))
      for (const bool packets : {false, true})
        for (const int blocks : block_counts()) {
          const DevicePrediction p =
              predicted({row->collective, row->name, packets}, 3 * kMiB, n, blocks);
          const std::string what =
              fmt::format("{} {} n={} blocks={} packets={}", to_string(row->collective), row->name,
                          n, blocks, packets);
          const double busiest = std::max(*std::ranges::max_element(p.in_bytes),
                                          *std::ranges::max_element(p.out_bytes));
          EXPECT_GE(p.seconds - model.launch, busiest / model.link * (1 - 1e-9)) << what;
          EXPECT_GE(p.seconds, model.launch + model.flag) << what;
          EXPECT_TRUE(std::isfinite(p.seconds)) << what;
          double in = 0, out = 0;
          for (const double bytes : p.in_bytes) in += bytes;
          for (const double bytes : p.out_bytes) out += bytes;
          EXPECT_NEAR(in, out, 1) << what;
        }
}

TEST(DevicePrediction, MoreBytesTakeLonger) {
  for (const AlgorithmRow* row : rows_with_data(8))
    for (const bool packets : {false, true}) {
      double before = 0;
      for (size_t bytes = 8; bytes <= 64 * kMiB; bytes *= 8) {
        const double now = predicted({row->collective, row->name, packets}, bytes, 8, 4).seconds;
        EXPECT_GE(now, before * (1 - 1e-9)) << to_string(row->collective) << ' ' << row->name;
        before = now;
      }
    }
}

TEST(DevicePrediction, IsTheSameAgain) {
  for (const AlgorithmRow* row : rows_with_data(6)) {
    const RowWay of{row->collective, row->name, true};
    const DevicePrediction once = predicted(of, 100'003, 6, 8),
                           again = predicted(of, 100'003, 6, 8);
    EXPECT_EQ(once.seconds, again.seconds) << row->name;
    EXPECT_EQ(once.ends, again.ends) << row->name;
  }
}

TEST(DevicePrediction, RanksThatDoTheSameEndTogether) {
  const RowWay kAlike[] = {{},
                           {Collective::all_reduce, "direct", true},
                           {Collective::all_reduce, "one_shot", true},
                           {Collective::all_reduce, "ring", false},
                           {Collective::all_reduce, "halving_doubling", false},
                           {Collective::all_gather, "direct", false},
                           {Collective::reduce_scatter, "ring", true},
                           {Collective::all_to_all, "pairwise", false}};
  for (const RowWay& of : kAlike) {
    const DevicePrediction p = predicted(of, kMiB, 8, 8);
    for (const double end : p.ends) EXPECT_NEAR(end, p.seconds, p.seconds * 1e-9) << of.row;
  }
  const DevicePrediction chain = predicted({Collective::broadcast, "chain"}, kMiB, 8, 8);
  EXPECT_LT(chain.ends[0], chain.ends[7] / 2);
}

// ---- blocks in time -----------------------------------------------------------------------------

BlockWord pass(double alone, std::vector<ResourceUse> uses) {
  BlockWord word;
  word.alone = alone;
  word.uses = std::move(uses);
  return word;
}

TEST(BlockEvents, SharingIsMaxMinFair) {
  // Resource 0 takes both at 2/3 of their speed; resource 1 could take the second at its full one.
  const std::vector<BlockProgram> two{{0, 0, 1, {pass(1, {{0, 3}})}},
                                      {1, 0, 1, {pass(2, {{0, 6}, {1, 6}})}}};
  const auto ends = run_blocks(two, {4, 100}, 0, {});
  EXPECT_NEAR(ends[0], 1.5, 1e-12);
  // By then 1.5 * 2 bytes of 6 are through; the rest at 3 bytes/s.
  EXPECT_NEAR(ends[1], 1.5 + 1, 1e-12);
}

TEST(BlockEvents, WhatOneLeavesAnotherTakes) {
  // The second is held up by resource 1, so that the first has more of resource 0 than a half.
  const std::vector<BlockProgram> two{{0, 0, 1, {pass(1, {{0, 10}})}},
                                      {1, 0, 1, {pass(1, {{0, 10}, {1, 10}})}}};
  const auto ends = run_blocks(two, {10, 2}, 0, {});
  EXPECT_NEAR(ends[0], 10.0 / 8, 1e-12);
  EXPECT_NEAR(ends[1], 5, 1e-12);
}

TEST(BlockEvents, LikeBlocksCountAsMany) {
  std::vector<BlockProgram> apart;
  for (int group = 0; group < 4; ++group) apart.push_back({0, group, 1, {pass(1, {{0, 5}})}});
  const std::vector<BlockProgram> together{{0, 0, 4, {pass(1, {{0, 5}})}}};
  const double one = run_blocks(together, {8}, 0, {})[0];
  EXPECT_NEAR(one, 20.0 / 8, 1e-12);
  for (const double end : run_blocks(apart, {8}, 0, {})) EXPECT_NEAR(end, one, 1e-12);
}

TEST(BlockEvents, PacketsAreReadAsTheyCome) {
  BlockWord write = pass(4, {}), read = pass(1, {});
  write.writes = {0};
  read.reads = {0};
  const BlockTimes times{0.5, 0};
  // Slowly written: the reader ends when the last one has come; slowly read: it began early.
  EXPECT_NEAR(run_blocks({{0, 0, 1, {write}}, {1, 0, 1, {read}}}, {}, 1, times)[1], 4.5, 1e-12);
  write.alone = 1;
  read.alone = 4;
  EXPECT_NEAR(run_blocks({{0, 0, 1, {write}}, {1, 0, 1, {read}}}, {}, 1, times)[1], 4.5, 1e-12);
}

TEST(BlockEvents, WhoWaitsForEverIsNamed) {
  BlockWord wait;
  wait.kind = BlockWord::Kind::wait;
  wait.points = {{1, 3}};
  BlockWord post = wait;
  post.kind = BlockWord::Kind::post;
  post.points = {{0, 2}};
  try {
    run_blocks({{0, 0, 1, {wait}}, {1, 0, 1, {post}}}, {}, 0, {});
    FAIL() << "point 2 is not point 3";
  } catch (const Error& error) {
    EXPECT_NE(error.cause.find("a block of rank 0 waits for ever"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringwood::device

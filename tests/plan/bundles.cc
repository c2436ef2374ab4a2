// Messages of several blocks travel as one where the blocks are small (bundle() in plan/passes.h).
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/checker/checker.h"
#include "collectives/plan/plan.h"

namespace ringwood {
namespace {

constexpr Wire kApart{WireFormat::exact, {}, true};
using Build = Schedule (*)(const Where&);

std::vector<std::shared_ptr<const Plan>> plans_of(Collective collective, Build build, int n,
                                                  size_t count, std::vector<size_t> blocks = {}) {
  CollectiveArgs args{collective, DataType::float32, ReduceOp::sum, 0, count, std::move(blocks)};
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int r = 0; r < n; ++r)
    plans.push_back(make_plan(build({r, n, 0}), args, "test", 1, Protocol::queued, kApart));
  return plans;
}

size_t sends_of(const Plan& plan) {
  size_t sends = 0;
  for (const PeerQueue& queue : plan.peers) sends += queue.sends.size();
  return sends;
}

TEST(Bundles, ARoundOfSmallBlocksIsOneMessage) {
  const size_t limit = ProtocolLimits().bundled / sizeof(float);
  const struct {
    Collective collective;
    Build build;
  } rows[] = {{Collective::all_gather, bruck_all_gather},
              {Collective::all_gather, pat_all_gather},
              {Collective::reduce_scatter, pat_reduce_scatter}};
  for (const auto& [collective, build] : rows)
    for (const int n : {3, 5, 8, 13, 16}) {
      size_t rounds = 0;
      while (1 << rounds < n) ++rounds;
      for (const auto& plan : plans_of(collective, build, n, limit)) {
        EXPECT_EQ(sends_of(*plan), rounds) << to_string(collective) << " " << n;
        EXPECT_EQ(plan->form.bundles > 0, n > 3);
      }
      for (const auto& plan : plans_of(collective, build, n, limit + 1)) {
        EXPECT_EQ(sends_of(*plan), static_cast<size_t>(n) - 1) << to_string(collective) << " " << n;
        EXPECT_EQ(plan->form.bundles, 0);
      }
    }
}

// In shared memory a post is cheap: only many blocks go together.
TEST(Bundles, FewBlocksInMemoryTravelAlone) {
  const ProtocolLimits limits;
  const int n = 4 * static_cast<int>(limits.bundled_in_memory);
  const std::vector<int> hosts(static_cast<size_t>(n), 0);
  const CollectiveArgs args{Collective::all_gather, DataType::float32, ReduceOp::sum, 0, 1, {}};
  for (int r = 0; r < n; ++r) {
    const auto plan = make_plan(pat_all_gather({r, n, 0}), args, "test", 1, Protocol::queued,
                                {WireFormat::exact, hosts});
    EXPECT_EQ(plan->form.bundles, 4) << r;  // sent and received: as many as the limit, and twice
  }
}

// Beyond what fits into caches, two more copies cost more than posts.
TEST(Bundles, LongMessagesInMemoryTravelBlockByBlock) {
  const ProtocolLimits limits;
  const int most = static_cast<int>(limits.bundled_bytes_in_memory / limits.bundled);
  for (const int blocks : {most, most + 1})
    for (const bool apart : {false, true}) {
      Schedule s{0, 2, 2 * blocks, {}, {}};
      std::vector<Span> even;
      for (int b = 0; b < blocks; ++b) even.push_back({2 * b});
      s.send_joined(1, even);
      const CollectiveArgs args{Collective::all_reduce,
                                DataType::float32,
                                ReduceOp::sum,
                                0,
                                2 * static_cast<size_t>(blocks) * limits.bundled / sizeof(float),
                                {}};
      const auto plan = make_plan(s, args, "test", 1, Protocol::queued, apart ? kApart : Wire{});
      EXPECT_EQ(plan->form.bundles, apart || blocks == most ? 1 : 0)
          << blocks << " apart " << apart;
    }
}

// Both ends go by the mean of a message's blocks: some messages are bundled, others are not.
TEST(Bundles, BothEndsOfUnevenBlocksDecideAlike) {
  const size_t limit = ProtocolLimits().bundled / sizeof(float);
  const int n = 8;
  std::vector<size_t> blocks;
  size_t sum = 0;
  for (int r = 0; r < n; ++r) {
    blocks.push_back(r == 2 ? 0 : r % 3 == 0 ? 3 * limit : limit / 2 + r);
    sum += blocks.back();
  }
  const auto plans = plans_of(Collective::all_gather, pat_all_gather, n, sum, blocks);
  std::vector<Schedule> proved;
  int bundles = 0;
  for (int r = 0; r < n; ++r) {
    proved.push_back(pat_all_gather({r, n, 0}));
    bundles += plans[r]->form.bundles;
  }
  EXPECT_GT(bundles, 0);
  EXPECT_LT(bundles, 4 * n);
  const PlanCheck found = check_plans(plans, proved);
  EXPECT_EQ(found.result, PlanCheck::Result::sound) << found.words;
}

// Spans of scratch in a message of several are as good as the user's.
TEST(Bundles, SpansOfAnyKind) {
  Schedule a{0, 2, 4, {}, {}}, b{1, 2, 4, {}, {}};
  for (int c = 0; c < 4; ++c) a.add_scratch(c);
  a.copy({4, 4}, {0, 4});
  a.send_joined(1, {{4, 2}, {2}, {7}});
  b.recv_reduce_joined(0, {{0, 2}, {2}, {3}});
  b.send_joined(0, {{3}, {0, 3}});
  a.recv_joined(1, {{3}, {0, 3}});
  const std::vector<Schedule> all = {a, b};
  CollectiveArgs args{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 1000, {}};
  std::vector<std::shared_ptr<const Plan>> plans;
  for (const Schedule& s : all)
    plans.push_back(make_plan(s, args, "test", 3, Protocol::queued, kApart));
  EXPECT_EQ(plans[0]->form.bundles, 2);
  EXPECT_EQ(plans[1]->form.bundles, 2);
  EXPECT_EQ(sends_of(*plans[0]), 3u);
  const PlanCheck found = check_plans(plans, all);
  EXPECT_EQ(found.result, PlanCheck::Result::sound) << found.words;
}

}  // namespace
}  // namespace ringwood

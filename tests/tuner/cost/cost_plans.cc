// What the cost model takes for granted about plans is what the plans of the same calls do.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/protocol.h"
#include "collectives/planner/group_planner.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/model_tuner.h"

namespace ringwood {
namespace {

MachineModel on_hosts(int n, int ranks_of_a_host) {
  MachineModel f;
  f.cores = n;
  for (int r = 0; r < n; ++r) f.hosts.push_back(r / ranks_of_a_host);
  return f;
}

// Predictions of single rows follow the way in which their operations are opened.
TEST(CostOfPlans, WhatIsOpenedInOneRoundIsPredictedSo) {
  int in_one_round = 0, agreed = 0;
  for (const int n : {2, 5, 16, 17}) {
    std::vector<MachineModel> machines = {on_hosts(n, n), on_hosts(n, 1), on_hosts(n, 2),
                                          MachineModel{}};
    machines.back().loopback = true;
    for (const MachineModel& machine : machines) {
      GroupPlanner plans(0, n, std::make_shared<ModelTuner>(machine, Options{}));
      for (const AlgorithmRow& row : algorithm_table()) {
        const Where where{0, n, 0, machine.hosts};
        if (!row.accepts(where) || !moves_data(row.collective)) continue;
        if (row.collective == Collective::all_to_all) continue;  // sizes of pairs: always agreed on
        for (size_t bytes = 8 << 10; bytes <= 128 << 10; bytes *= 2) {
          ModelQuery q{row.collective, bytes};
          q.n = n;
          q.machine = &machine;
          const std::vector<Candidate> candidates = explain(q, {}, row.name, 1);
          ASSERT_EQ(candidates.size(), 1u);
          Load load{row.collective, bytes};
          load.agreement = load.out_of_place = true;
          load.one_round =
              plans
                  .get({{row.collective, DataType::float32, ReduceOp::sum, 0, bytes / 4, {}},
                        {row.name, 1}})
                  ->protocol != Protocol::queued;
          ++(load.one_round ? in_one_round : agreed);
          if (candidates[0].simulated) {
            // By one host where there are several, of many ranks.
            const double seconds = predict(build_all(row, where), load, machine).seconds;
            EXPECT_NEAR(candidates[0].seconds, seconds, n > 5 ? 0.2 * seconds : 0x1p-20 * seconds)
                << to_string(row.collective) << " " << row.name << " n " << n << " " << bytes
                << " one round " << load.one_round;
          }
        }
      }
    }
  }
  EXPECT_GT(in_one_round, 100);
  EXPECT_GT(agreed, 100);
}

using Ends = std::multiset<std::pair<int, int>>;  // from, to

Ends fused_in_plans(const AlgorithmRow& row, const Where& where, const CollectiveArgs& args) {
  Ends ends;
  std::vector<std::shared_ptr<const Plan>> plans;
  for (const Schedule& s : build_all(row, where)) plans.push_back(make_plan(s, args, row.name, 1));
  for (int r = 0; r < where.n; ++r) {
    for (const Fusion& fusion : plans[r]->fusions.list) {
      bool put_back = true;
      for (size_t k = 0; k < fusion.receives.size(); ++k) {
        const PeerQueue& queue = plans[r]->peers[fusion.queues[k]];
        const auto at = std::find(queue.receives.begin(), queue.receives.end(), fusion.receives[k]);
        const Plan& peer = *plans[queue.peer];
        const auto back = std::find_if(peer.peers.begin(), peer.peers.end(),
                                       [&](const PeerQueue& q) { return q.peer == r; });
        const int32_t offer = back->sends[static_cast<size_t>(at - queue.receives.begin())];
        put_back = put_back && peer.steps[offer].put == fusion.numbers[k];
      }
      for (const int32_t send : fusion.sends)
        if (put_back) ends.insert({r, plans[r]->steps[send].peer});
    }
  }
  return ends;
}

// By what the executor needs for it: an owner's fusion, and exposed buffers that name their puts.
TEST(CostOfPlans, WhatIsFusedIsPredictedSo) {
  const size_t kFused = ProtocolLimits{}.fused_bytes;
  size_t fused = 0;
  for (const AlgorithmRow& row : algorithm_table()) {
    for (const int n : {2, 3, 4, 6, 8}) {
      const Where where{0, n, n - 1};
      // Block-wise plans cut spans of several blocks, which the model sees as one message.
      if (!row.accepts(where) || in_blocks(row.collective)) continue;
      for (const size_t count : {kFused / 4 - 1, kFused / 2 + 5, n * kFused}) {
        MachineModel machine;
        machine.zero_copy = 0;
        Load load{row.collective, count * 4};
        load.zero_copy = true;
        const auto schedules = build_all(row, where);
        Ends predicted;
        for (const CostMessage& m :
             model_of(plans_of(schedules, 1, load, machine), load, machine).messages)
          if (m.puts) predicted.insert({m.from, m.to});
        const CollectiveArgs args{
            row.collective, DataType::float32, ReduceOp::sum, n - 1, count, {}};
        EXPECT_EQ(predicted, fused_in_plans(row, where, args))
            << to_string(row.collective) << " " << row.name << " n " << n << " count " << count;
        fused += predicted.size();
      }
    }
  }
  EXPECT_GT(fused, 20u);
}

// One host of `n` cores, where nothing but copies costs anything.
MachineModel copies_only(int n, double copy) {
  constexpr double kFree = 1e15;
  MachineModel f;
  f.cores = n;
  f.copy = {1 / copy, 1 / copy, 1 / copy};
  f.reduce = {kFree, kFree, kFree};
  f.memory = f.handed = f.node_handed = kFree;
  f.exchanged = {kFree, kFree, kFree};
  f.call = f.post = f.look = f.latency = f.node_latency = f.yield = 0;
  return f;
}

double seconds_of(Collective collective, const char* row, int n, const Load& load,
                  const MachineModel& machine) {
  const AlgorithmRow* const found = find_algorithm(collective, row);
  return predict(build_all(*found, {0, n, 0, machine.hosts}), load, machine).seconds;
}

TEST(CostOfPlans, OwnBlocksAreCopiedBesides) {
  const int n = 3;
  const double copy = 1e-10, block = 4e6;
  const MachineModel f = copies_only(n, copy);
  Load load{Collective::all_gather, static_cast<size_t>(block)};
  const double in_place = seconds_of(load.collective, "direct", n, load, f);
  load.out_of_place = true;
  EXPECT_NEAR(seconds_of(load.collective, "direct", n, load, f) - in_place, block * copy,
              0.01 * block * copy);
  load.collective = Collective::reduce_scatter;  // whose own blocks are steps
  const double apart = seconds_of(load.collective, "direct", n, load, f);
  load.out_of_place = false;
  EXPECT_EQ(seconds_of(load.collective, "direct", n, load, f), apart);
}

TEST(CostOfPlans, OnlyWhatGoesBothWaysIsHandedOverSlower) {
  MachineModel f = copies_only(2, 1e-15);
  f.handed = f.node_handed = 10e9;
  const Load sum{Collective::all_reduce, 4 << 20}, one_way{Collective::broadcast, 4 << 20};
  const double exchanged = seconds_of(sum.collective, "exchange", 2, sum, f);
  const double sent = seconds_of(one_way.collective, "linear", 2, one_way, f);
  f.both_ways = 0.5;
  EXPECT_NEAR(seconds_of(sum.collective, "exchange", 2, sum, f), 2 * exchanged, 1e-3 * exchanged);
  EXPECT_EQ(seconds_of(one_way.collective, "linear", 2, one_way, f), sent);
}

// A send buffer lies in everybody's cache from the second call on; a sum that its owner makes anew
// for each call does not.
TEST(CostOfPlans, WhatIsReadInPlaceAndWrittenAnewIsDearer) {
  const size_t bytes = 64 << 10;
  MachineModel f = copies_only(2, 1e-11);
  const auto zero_copy = [&](Collective collective, const char* row) {
    Load load{collective, bytes};
    load.zero_copy = true;
    return seconds_of(collective, row, 2, load, f);
  };
  const double gathered = zero_copy(Collective::all_gather, "direct");
  const double fused = zero_copy(Collective::all_reduce, "direct");
  const double summed = zero_copy(Collective::all_reduce, "exchange");
  f.exchanged.l2 = f.exchanged.l3 = 1e9;
  EXPECT_EQ(zero_copy(Collective::all_gather, "direct"), gathered);
  EXPECT_EQ(zero_copy(Collective::all_reduce, "direct"), fused);  // only the answers write it
  EXPECT_NEAR(zero_copy(Collective::all_reduce, "exchange") - summed, bytes / 1e9,
              0.05 * bytes / 1e9);
}

// Until so many bytes have passed, and a message of several lines by one more way of a line.
TEST(CostOfPlans, TheFirstBytesOfAMessageAreDearer) {
  MachineModel f = copies_only(2, 1e-15);
  const auto sent = [&](size_t bytes) {
    const Load load{Collective::broadcast, bytes};
    return seconds_of(load.collective, "linear", 2, load, f);
  };
  f.exchanged.small = 1e9;
  const double first = sent(4 << 10);
  EXPECT_NEAR(first, 2 * 4096 / 1e9, 1e-8);
  EXPECT_NEAR(sent(2 << 10), first / 2, 1e-8);
  EXPECT_NEAR(sent(64 << 10), first, 1e-8);
  f.exchanged.small = f.handed;
  f.latency = f.node_latency = 1e-6;
  EXPECT_NEAR(sent(8 << 10) - sent(4), (1 - 4 / 192.0) * 1e-6, 1e-8);
}

// Messages of a smaller group's ranks are joined where those of the whole group's are.
TEST(CostOfPlans, BlocksStandForThoseOfTheWholeGroup) {
  const MachineModel machine = on_hosts(64, 8);
  const auto schedules =
      build_all(*find_algorithm(Collective::all_gather, "hierarchical"), {0, 64, 0, machine.hosts});
  const auto bundles = [&](size_t block, double of_blocks) {
    Load load{Collective::all_gather, block};
    load.of_blocks = of_blocks;
    return plans_of(schedules, 1, load, machine)[0].form.bundles;
  };
  const ProtocolLimits limits;
  const auto blocks = static_cast<double>(limits.bundled_bytes_in_memory / limits.bundled) / 8;
  const int across = bundles(limits.bundled, 1);
  EXPECT_EQ(bundles(limits.bundled, blocks), across + 14);  // with 7 ranks, both ways
  EXPECT_EQ(bundles(limits.bundled, 2 * blocks), across);
  EXPECT_EQ(bundles(limits.bundled / 2, 2 * blocks), across + 14);
}

}  // namespace
}  // namespace ringwood

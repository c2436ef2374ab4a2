// The executor on schedules made for one thing each; random ones: random_schedules.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "collectives/algorithms/algorithms.h"
#include "collectives/executors/plan_runner.h"
#include "collectives/plan/passes.h"
#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"
#include "collectives/verify/verify.h"
#include "tests/support/places.h"
#include "tests/support/stepped.h"
#include "tests/support/transports.h"
#include "transports/memory/arena.h"

namespace ringwood::testing {
namespace {

TEST(Executor, RunsEveryAllReduceRowWithSegments) {
  const std::vector<int> host = {0, 1, 1, 0};  // for the hierarchical ones
  const int n = 4;
  Runner runner(n, LoopbackFaults{});
  std::mt19937 random(7);
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != Collective::all_reduce || !row.accepts(Where{0, n, 0, host})) continue;
    for (int segments : {1, 2, 5}) {
      const size_t count = 1237;
      Memory memory(n);
      std::vector<int64_t> want(count, 0);
      std::vector<Schedule> schedules;
      for (int r = 0; r < n; ++r) {
        schedules.push_back(row.build({r, n, 0, host}));
        for (size_t e = 0; e < count; ++e) {
          memory[r].push_back(static_cast<int64_t>(random() % 1000));
          want[e] += memory[r][e];
        }
      }
      CollectiveArgs args;
      args.collective = Collective::all_reduce;
      args.type = DataType::int64;
      args.count = count;
      ASSERT_TRUE(runner.run(schedules, args, segments, memory, random)) << row.name;
      for (int r = 0; r < n; ++r)
        ASSERT_EQ(memory[r], want) << row.name << " segments " << segments;
    }
  }
}

Schedule direct_for(int rank, int n) {
  return find_algorithm(Collective::all_reduce, "direct")->build({rank, n, 0, {}});
}

// Nothing in the result would tell that operands go the long way.
TEST(Executor, ReducesInOnePassWhereEveryResultCanBePut) {
  for (int n : {2, 3}) {
    Runner runner(make_meshes(n, shared_memory_transport().make));
    std::mt19937 random(3);
    const size_t count = 30000 * n;
    std::vector<Schedule> schedules;
    std::vector<void*> buffers;
    for (int r = 0; r < n; ++r) {
      schedules.push_back(direct_for(r, n));
      buffers.push_back(Arena::of_process()->allocate(count * sizeof(int64_t)));
    }
    for (int again = 0; again < 3; ++again) {
      for (void* b : buffers) std::fill_n(static_cast<int64_t*>(b), count, 5);
      ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, buffers, random));
      for (void* b : buffers)
        ASSERT_EQ(std::count(static_cast<int64_t*>(b), static_cast<int64_t*>(b) + count, 5 * n),
                  static_cast<std::ptrdiff_t>(count));
    }
    for (const auto& e : runner.executors) EXPECT_EQ(e->fused(), 3u) << n;
    for (void* b : buffers) Arena::of_process()->release(b);
  }
}

// Rank 0 lets two peers read [0] and then takes a sum back from one of them, which may write it
// into place while the other still reads.
TEST(Executor, PutsOnlyWhereNobodyElseStillReads) {
  const std::vector<Schedule> schedules = parse_schedules(
      "schedule rank 0 of 3 chunks 1\n"
      "send 2 [0]\nsend 1 [0]\nrecv 1 [0]\nrecv_reduce 2 [0]\n"
      "schedule rank 1 of 3 chunks 1 scratch 0\n"
      "copy [1] <- [0]\nsend 2 [1]\nrecv_reduce 0 [0]\nsend 0 [0]\nrecv_reduce 2 [0]\n"
      "schedule rank 2 of 3 chunks 1 scratch 0\n"
      "recv 0 [1]\nrecv_reduce 1 [1]\nsend 0 [0]\nsend 1 [0]\nreduce [0] <- [1]\n");
  ASSERT_EQ(verify(Collective::all_reduce, schedules, 0), std::nullopt);
  const size_t count = 30000;
  const int n = 3;
  Runner runner(make_meshes(n, shared_memory_transport().make));
  std::vector<void*> buffers;
  std::vector<std::shared_ptr<Plan>> plans;
  for (int r = 0, value = 1; r < n; ++r, value *= 10) {
    buffers.push_back(Arena::of_process()->allocate(count * sizeof(int64_t)));
    std::fill_n(static_cast<int64_t*>(buffers[r]), count, value);
    plans.push_back(make_plan(schedules[r], sum_of(count), "test", 1));
    *plans[r] = add_slots(std::move(*plans[r]));
  }
  for (int r = 0; r < n; ++r)
    runner.executors[r]->start(
        {plans[r].get(), plans[r]->fingerprint, {&buffers[r], 1}, {}, {}, false});
  const auto step = [&](int r) {
    bool progressed = false;
    if (runner.executors[r]->idle()) return;
    if (Status s = runner.executors[r]->step(progressed); !s) FAIL() << s.error().message();
  };
  step(2);  // its eager messages, without which no rank begins
  for (int k = 0; k < 2000; ++k) step(0), step(1);
  for (int k = 0; k < 2000; ++k) step(2), step(0), step(1);
  for (int r = 0; r < n; ++r) {
    ASSERT_TRUE(runner.executors[r]->idle()) << r;
    EXPECT_EQ(
        std::count_if(static_cast<int64_t*>(buffers[r]), static_cast<int64_t*>(buffers[r]) + count,
                      [](int64_t x) { return x != 111; }),
        0)
        << "rank " << r << " has " << *static_cast<int64_t*>(buffers[r]);
    Arena::of_process()->release(buffers[r]);
  }
}

// The plan says how an operation begins, whatever the links could do: by eager slots or by
// messages, with the data in them or not, from one to the next.
TEST(Executor, BeginsAsThePlanSays) {
  const int n = 3;
  Runner runner(make_meshes(n, shared_memory_transport().make));
  std::mt19937 random(5);
  for (int k = 0; k < 120; ++k) {
    runner.slots = k % 2 == 0;
    const size_t count = random() % 2000;
    const bool enclosed = k % 3 != 0;
    Memory memory(n, std::vector<int64_t>(count, k));
    std::vector<Schedule> schedules;
    std::vector<void*> buffers;
    for (int r = 0; r < n; ++r) {
      schedules.push_back(enclosed ? one_shot_all_reduce({r, n, 0}) : direct_for(r, n));
      buffers.push_back(memory[r].data());
    }
    ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, buffers, random,
                           enclosed ? Protocol::one_round : Protocol::queued));
    ASSERT_EQ(memory, Memory(n, std::vector<int64_t>(count, k * n))) << k;
  }
}

TEST(Executor, RefusesSlotsThatNotEveryRankHas) {
  Runner runner(2, LoopbackFaults{});
  const auto plan = make_plan(one_shot_all_reduce({0, 2, 0}), sum_of(1), "test", 1);
  *plan = add_slots(std::move(*plan));
  int64_t number = 1;
  void* const buffer = &number;
  PlanExecution execution{plan.get(), plan->fingerprint, {&buffer, 1}, {}, {}, false};
  EXPECT_THROW(runner.executors[0]->start(execution), Error);
  EXPECT_TRUE(runner.executors[0]->idle());
}

TEST(Executor, FindsADifferentCallBeforeAnyBufferIsWritten) {
  const int n = 2;
  auto meshes = loopback_meshes(n, LoopbackFaults{});
  std::vector<std::unique_ptr<PlanRunner>> executors;
  for (auto& mesh : meshes) executors.push_back(std::make_unique<PlanRunner>(*mesh));
  Memory memory{{1, 2, 3}, {4, 5, 6}};
  const Memory before = memory;
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<std::vector<void*>> buffers{{memory[0].data()}, {memory[1].data()}};
  for (int r = 0; r < n; ++r) {
    CollectiveArgs args;
    args.collective = Collective::all_reduce;
    args.type = DataType::int64;
    args.op = r ? ReduceOp::max : ReduceOp::sum;
    args.count = 3;
    plans.push_back(make_plan(one_shot_all_reduce({r, n, 0}), args, "one_shot", 1));
    executors[r]->start(
        {plans[r].get(), fingerprint_of(args, "one_shot", 1, 5), buffers[r], {}, {}, false});
  }
  std::string text[2];
  for (int k = 0; k < 1000 && (text[0].empty() || text[1].empty()); ++k)
    for (int r = 0; r < n; ++r) {
      if (!text[r].empty()) continue;
      bool progressed = false;
      if (Status s = executors[r]->step(progressed); !s) text[r] = s.error().cause;
    }
  EXPECT_EQ(text[0],
            "rank 0 called all_reduce int64 x 3, sum (#5) while rank 1 called all_reduce int64 x "
            "3, max (#5)");
  EXPECT_EQ(text[1],
            "rank 1 called all_reduce int64 x 3, max (#5) while rank 0 called all_reduce int64 x "
            "3, sum (#5)");
  EXPECT_EQ(memory, before);
}

// A rank that has done its part may have left: it must not be taken for one that is missing.
TEST(Executor, WaitsOnlyForThoseThatHaveSomethingToDo) {
  const int n = 3;
  const size_t count = 100;  // too many for a preamble
  const std::vector<Schedule> schedules = parse_schedules(
      "schedule rank 0 of 3 chunks 1\nsend 2 [0]\nrecv 1 [0]\n"
      "schedule rank 1 of 3 chunks 1\nsend 0 [0]\n"
      "schedule rank 2 of 3 chunks 1\nrecv 0 [0]\n");
  Runner runner(n, LoopbackFaults{});
  Memory memory{{0}, {1}, {2}};
  std::vector<std::shared_ptr<Plan>> plans;
  std::vector<void*> buffers;
  for (int r = 0; r < n; ++r) {
    memory[r].assign(count, r);
    buffers.push_back(memory[r].data());
    plans.push_back(make_plan(schedules[r], sum_of(count), "test", 1, Protocol::one_round));
  }
  for (int r = 0; r < n; ++r)
    runner.executors[r]->start(
        {plans[r].get(), plans[0]->fingerprint, {&buffers[r], 1}, {}, {}, r == 1});
  const auto step_all = [&] {
    for (int k = 0; k < 1000; ++k)
      for (auto& e : runner.executors) {
        bool progressed = false;
        if (e->idle()) continue;
        if (Status s = e->step(progressed); !s) FAIL() << s.error().message();
      }
  };
  step_all();
  EXPECT_TRUE(runner.executors[2]->idle());
  EXPECT_EQ(runner.executors[0]->waits().peers(), std::vector<int>{1});
  EXPECT_EQ(runner.executors[0]->waits().text(), "rank 1 (step 1: recv of 800 bytes)");
  runner.executors[1]->release();
  step_all();
  for (auto& e : runner.executors) EXPECT_TRUE(e->idle());
  EXPECT_EQ(memory[0][0], 1);
  EXPECT_EQ(memory[2][0], 0);
}

// On hosts: ceil(log2 H) messages of each leader and one for each rank below it, one of the others.
TEST(Executor, ABarrierByHostsSendsNothingBeyondItsAgreement) {
  for (const uint64_t seed : {1, 2, 3}) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::vector<int> hosts = {0, 1, 0, 2, 1, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0};
    const int n = static_cast<int>(hosts.size());
    Runner runner(n, LoopbackFaults{.seed = seed, .delay = 4});
    runner.hosts = hosts;
    std::vector<Schedule> schedules;
    for (int r = 0; r < n; ++r) schedules.push_back(dissemination_barrier({r, n, 0}));
    CollectiveArgs args;
    args.type = DataType::uint8;
    ASSERT_TRUE(runner.run(schedules, args, 1, std::vector<void*>(n), random));
    // Host 0 has 10 ranks: 8 are below its leader, 1 below the second of them.
    const std::map<int, uint64_t> more = {{0, 2 + 8}, {1, 2 + 1}, {2, 1 + 1}, {3, 2 + 1}, {6, 2}};
    for (int r = 0; r < n; ++r) {
      uint64_t sent = 0;
      for (const Completions& total : runner.meshes[r]->totals[kCollectiveChannel])
        sent += total.sent;
      EXPECT_EQ(sent, more.contains(r) ? more.at(r) : 1) << r;
    }
  }
}

// The agreement is dissemination: ceil(log2 n) messages of each rank.
TEST(Executor, ABarrierSendsNothingBeyondItsAgreement) {
  for (int n : {2, 3, 5, 8}) {
    Runner runner(n, LoopbackFaults{});
    std::mt19937 random(1);
    std::vector<Schedule> schedules;
    for (int r = 0; r < n; ++r) schedules.push_back(dissemination_barrier({r, n, 0}));
    CollectiveArgs args;
    args.type = DataType::uint8;
    ASSERT_TRUE(runner.run(schedules, args, 1, std::vector<void*>(n), random));
    const auto rounds = static_cast<uint64_t>(std::bit_width(static_cast<unsigned>(n - 1)));
    for (const auto& mesh : runner.meshes) {
      uint64_t sent = 0;
      for (const Completions& total : mesh->totals[kCollectiveChannel]) sent += total.sent;
      EXPECT_EQ(sent, rounds) << n;
    }
  }
}

// So the caller's input can be sent from where it is.
TEST(Plans, OfAllGatherDoNotWriteTheirOwnBlock) {
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != Collective::all_gather) continue;
    for (int n : {2, 3, 4, 6, 8}) {
      const auto places = places_for(row, n);
      if (!places) continue;
      const CollectiveArgs args{
          Collective::all_gather, DataType::float32, ReduceOp::sum, 0, 100, {}};
      for (int r = 0; r < n; ++r)
        EXPECT_FALSE(
            make_plan(row.build(places->where(r, n, 0)), args, row.name, 2)->memory.writes_own)
            << row.name;
    }
  }
}

TEST(Plans, OfUnevenBlocksAreFoundAgain) {
  const Options options;
  GroupPlanner plans(0, 2, std::make_shared<ModelTuner>(MachineModel{}, options));
  CollectiveArgs args{Collective::all_to_all, DataType::float32, ReduceOp::sum, 0, 0, {5, 7, 5, 6}};
  const auto first = plans.get({args, {}});
  EXPECT_EQ(plans.get({args, {}}), first);
  for (size_t k = 0; k < 1000; ++k) {  // bounded
    args.blocks[1] = 100 + k;
    (void)plans.get({args, {}});
  }
  args.blocks[1] = 7;
  EXPECT_NE(plans.get({args, {}}), first);
  const CollectiveArgs even{
      Collective::all_to_all, DataType::float32, ReduceOp::sum, 0, 0, {4, 4, 4, 4}};
  const auto kept = plans.get({even, {}});
  for (size_t k = 0; k < 1000; ++k) {
    args.blocks[1] = 5000 + k;
    (void)plans.get({args, {}});
  }
  EXPECT_EQ(plans.get({even, {}}), kept);
}

TEST(Plans, FoldWhatIsReceivedOnlyToBeAdded) {
  const CollectiveArgs args{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 100, {}};
  const auto folds = [&](const Schedule& schedule, Protocol protocol) {
    std::string text;
    const auto plan = make_plan(schedule, args, "x", 1, protocol);
    for (const BoundStep& step : plan->steps) text += step.folds ? '+' : '-';
    return text;
  };
  EXPECT_EQ(folds(exchange_all_reduce({0, 2, 0}), Protocol::one_round), "-+-");
  EXPECT_EQ(folds(exchange_all_reduce({0, 2, 0}), Protocol::queued), "---");
  const auto plan = make_plan(exchange_all_reduce({0, 2, 0}), args, "x", 1, Protocol::one_round);
  *plan = add_slots(std::move(*plan));
  EXPECT_EQ(plan->steps[1].kind, StepKind::recv_reduce);
  EXPECT_EQ(plan->steps[1].dst.buffer, 0);
  EXPECT_EQ(plan->steps[2].bytes, 0u);
  // Read twice, or not by the next step: it must be kept.
  EXPECT_EQ(folds(parse_schedule("schedule rank 0 of 2 chunks 1 scratch 0 0\n"
                                 "send 1 [0]\nrecv 1 [1]\nreduce [0] <- [1]\ncopy [2] <- [1]\n"),
                  Protocol::one_round),
            "----");
}

TEST(Pieces, CoverEverythingOnceInWholeCacheLinesWhereTheyCan) {
  for (size_t count : {0, 1, 5, 63, 64, 1000, 4099})
    for (int parts : {1, 2, 3, 7, 64})
      for (size_t unit : {1, 8, 16}) {
        size_t next = 0;
        for (int i = 0; i < parts; ++i) {
          const Piece p = piece(count, parts, i, unit);
          ASSERT_EQ(p.first, next);
          if (count >= unit * parts * 4) {
            ASSERT_EQ(p.first % unit, 0u);
          }
          next += p.count;
        }
        ASSERT_EQ(next, count);
      }
}

}  // namespace
}  // namespace ringwood::testing

// One iteration moves a limited number of bytes, however large the operation is, and the next one
// goes on where it stopped: copies, messages that are stored or added, and fusions.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/stepped.h"
#include "transports/memory/arena.h"
#include "transports/shm/shm.h"

namespace ringwood::testing {
namespace {

constexpr size_t kBytes = 24 * kIterationBytes + 1000;

struct Moved {
  size_t iterations = 0;  // of rank 0, that have moved something
  uint64_t fused = 0;
};

void start(Runner& runner, const std::vector<std::shared_ptr<Plan>>& plans,
           std::vector<std::vector<void*>>& buffers) {
  for (size_t r = 0; r < plans.size(); ++r) {
    Fingerprint call = plans[r]->fingerprint;
    call.sequence = runner.sequence;
    runner.executors[r]->start({plans[r].get(), call, buffers[r], {}, {}, false});
  }
  ++runner.sequence;
}

// All ranks in turn, one iteration each.
Moved iterations_of(Runner& runner, const std::vector<std::shared_ptr<Plan>>& plans,
                    std::vector<std::vector<void*>>& buffers) {
  const auto size = runner.executors.size();
  start(runner, plans, buffers);
  Moved moved;
  const Deadline limit = patiently();
  for (bool all = false; !all;) {
    EXPECT_FALSE(limit.passed());
    if (limit.passed()) break;
    all = true;
    for (size_t r = 0; r < size; ++r) {
      PlanRunner& one = *runner.executors[r];
      if (one.idle()) continue;
      bool progressed = false;
      const Status s = one.step(progressed);
      EXPECT_TRUE(s) << (s ? "" : s.error().message());
      if (!s) return moved;
      if (r == 0 && progressed) ++moved.iterations;
      all &= one.idle();
    }
  }
  moved.fused = runner.executors[0]->fused();
  return moved;
}

std::vector<std::shared_ptr<Plan>> plans_of(Runner& runner, const char* algorithm,
                                            const CollectiveArgs& args, const Wire& wire = {}) {
  const int n = static_cast<int>(runner.meshes.size());
  std::vector<std::shared_ptr<Plan>> plans;
  for (int r = 0; r < n; ++r) {
    const Schedule schedule = find_algorithm(args.collective, algorithm)->build({r, n, 0});
    plans.push_back(make_plan(schedule, args, algorithm, 1, Protocol::queued, wire));
    if (slots_to_all(*runner.meshes[static_cast<size_t>(r)]))
      *plans.back() = add_slots(std::move(*plans.back()));
  }
  return plans;
}

TEST(Iterations, OfALocalCopy) {
  Runner runner(1, LoopbackFaults{});
  std::vector<std::byte> in(kBytes, std::byte{7}), out(kBytes);
  std::vector<std::vector<void*>> buffers = {{in.data(), out.data()}};
  const auto plans = plans_of(
      runner, "pairwise", {Collective::all_to_all, DataType::uint8, ReduceOp::sum, 0, kBytes, {}});
  EXPECT_GE(iterations_of(runner, plans, buffers).iterations, kBytes / kIterationBytes);
  EXPECT_EQ(in, out);
}

// `memory`: of each rank. What is added up is right after any number of iterations.
Moved summed(Runner runner, const std::vector<std::byte*>& memory, const Wire& wire) {
  const size_t count = kBytes / sizeof(float);
  std::vector<std::vector<void*>> buffers;
  for (size_t r = 0; r < memory.size(); ++r) {
    auto* const data = reinterpret_cast<float*>(memory[r]);
    for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i % 1000) * (r + 1));
    buffers.push_back({data});
  }
  const auto plans =
      plans_of(runner, "direct",
               {Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count, {}}, wire);
  const Moved moved = iterations_of(runner, plans, buffers);
  const auto factor = static_cast<float>(memory.size() * (memory.size() + 1) / 2);
  for (std::byte* const each : memory) {
    const auto* const data = reinterpret_cast<const float*>(each);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += data[i] != static_cast<float>(i % 1000) * factor;
    EXPECT_EQ(wrong, 0u);
  }
  return moved;
}

TEST(Iterations, OfMessages) {
  std::vector<std::byte> one(kBytes), other(kBytes);
  const Moved moved =
      summed(Runner(2, LoopbackFaults{}), {one.data(), other.data()}, {.apart = true});
  // Half of the buffer is sent, and half received.
  EXPECT_GE(moved.iterations, kBytes / 2 / kIterationBytes);
}

// However many links bring something at once.
TEST(Iterations, OfSeveralLinks) {
  constexpr size_t kBlock = 8 * kIterationBytes, kRanks = 4;
  Runner runner(kRanks, LoopbackFaults{});
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<void*>> buffers(kRanks);
  for (size_t r = 0; r < kRanks; ++r) {
    memory.emplace_back(kRanks * kBlock, std::byte(r));
    for (size_t block = 0; block < kRanks; ++block)
      buffers[r].push_back(memory[r].data() + block * kBlock);
  }
  const auto plans = plans_of(
      runner, "direct", {Collective::all_gather, DataType::uint8, ReduceOp::sum, 0, kBlock, {}},
      {.apart = true});
  EXPECT_GE(iterations_of(runner, plans, buffers).iterations,
            (kRanks - 1) * kBlock / kIterationBytes);
  for (const auto& each : memory)
    for (size_t block = 0; block < kRanks; ++block)
      EXPECT_EQ(
          std::ranges::count(std::span(each).subspan(block * kBlock, kBlock), std::byte(block)),
          static_cast<ptrdiff_t>(kBlock));
}

TEST(Iterations, OfAFusion) {
  std::vector<std::byte*> memory;
  for (int r = 0; r < 3; ++r)
    memory.push_back(static_cast<std::byte*>(Arena::of_process()->allocate(kBytes)));
  const Moved moved = summed(Runner(make_meshes(3, make_shm)), memory, {});
  EXPECT_GT(moved.fused, 0u);
  EXPECT_GE(moved.iterations, kBytes / 3 / kIterationBytes);
  for (std::byte* const each : memory) Arena::of_process()->release(each);
}

// A peer gives up when rank 0 has added up a part: none of it is added a second time.
TEST(Iterations, OfAFusionWhosePeerGivesUp) {
  Runner runner(make_meshes(3, make_shm));
  const size_t count = kBytes / sizeof(float);
  std::vector<std::vector<void*>> buffers;
  for (int r = 0; r < 3; ++r) {
    auto* const data = static_cast<float*>(Arena::of_process()->allocate(kBytes));
    std::fill_n(data, count, 1.0F);
    buffers.push_back({data});
  }
  const std::span mine(static_cast<const float*>(buffers[0][0]), count);
  const auto plans = plans_of(
      runner, "direct", {Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, count, {}});
  start(runner, plans, buffers);
  bool progressed = false;
  const auto step = [&](size_t r) { return runner.executors[r]->step(progressed); };
  for (const Deadline limit = patiently(); mine.front() == 1 && !limit.passed();)
    for (size_t r = 0; r < 3 && mine.front() == 1; ++r) ASSERT_TRUE(step(r));
  ASSERT_EQ(mine.front(), 3);
  ASSERT_EQ(runner.executors[0]->fused(), 0u) << "a part of it";
  for (auto& link : runner.meshes[1]->peers[0].link)
    if (link) link->abort();
  Status s;
  for (const Deadline limit = patiently(); s && !limit.passed();) s = step(0);
  EXPECT_FALSE(s);
  EXPECT_EQ(std::ranges::count_if(mine, [](float x) { return x != 1 && x != 3; }), 0);
  for (auto& each : buffers) Arena::of_process()->release(each[0]);
}

}  // namespace
}  // namespace ringwood::testing

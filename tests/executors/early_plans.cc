// Plans whose data moves, in scratch, while the ranks agree (plan/agreement.h): they sum up
// whatever comes first, and write nothing before all ranks have been heard.
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/stepped.h"

namespace ringwood::testing {
namespace {

std::vector<Schedule> by_leaders(const std::vector<int>& hosts) {
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "hierarchical_leaders");
  return build_all(row, {0, static_cast<int>(hosts.size()), 0, hosts});
}

// `sums`: of what all ranks have.
Memory random_memory(size_t ranks, size_t count, std::mt19937& random, std::vector<int64_t>& sums) {
  Memory memory(ranks);
  sums.assign(count, 0);
  for (auto& mine : memory)
    for (size_t i = 0; i < count; ++i) {
      mine.push_back(static_cast<int64_t>(random() % 1000));
      sums[i] += mine.back();
    }
  return memory;
}

TEST(EarlyPlans, SumUpWhateverComesFirst) {
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, {0, 1, 2, 0, 3, 1, 3, 3}, {0, 1, 1, 2, 0}}) {
    const std::vector<Schedule> schedules = by_leaders(hosts);
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      std::mt19937 random(static_cast<unsigned>(seed));
      Runner runner(static_cast<int>(hosts.size()), LoopbackFaults{.seed = seed, .delay = 5});
      runner.hosts = hosts;
      for (int again = 0; again < 3; ++again) {
        const size_t count = 1 + random() % 1000;
        std::vector<int64_t> want;
        Memory memory = random_memory(hosts.size(), count, random, want);
        ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, memory, random));
        for (const auto& mine : memory) EXPECT_EQ(mine, want) << "seed " << seed;
      }
    }
  }
}

// All ranks of one host, by the digits of their numbers, or led by the first where they crowd it.
TEST(EarlyPlans, OfManyRanksOfAHostSumUpWhateverComesFirst) {
  for (const bool crowded : {false, true})
    for (const int n : {18, 24}) {
      const AlgorithmRow& row = *find_algorithm(
          Collective::all_reduce, crowded ? "hierarchical_leaders" : "recursive_multiplying");
      const std::vector<Schedule> schedules = build_all(row, {0, n, 0, {}});
      for (uint64_t seed = 1; seed <= 10; ++seed) {
        std::mt19937 random(static_cast<unsigned>(seed));
        Runner runner(n, LoopbackFaults{.seed = seed, .delay = 5});
        runner.hosts.assign(static_cast<size_t>(n), 0);
        runner.crowded = crowded;
        const size_t count = 1 + random() % 1000;
        std::vector<int64_t> want;
        Memory memory = random_memory(static_cast<size_t>(n), count, random, want);
        ASSERT_TRUE(runner.run(schedules, sum_of(count), 1, memory, random));
        EXPECT_EQ(runner.early, crowded ? 1 : n);
        for (const auto& mine : memory) EXPECT_EQ(mine, want) << "seed " << seed;
      }
    }
}

// Four ranks on two hosts: 0 and 2 lead.
class DelayedData : public ::testing::Test {
 protected:
  void start(int rank, size_t count) {
    const auto r = static_cast<size_t>(rank);
    plans_[r] = make_plan(by_leaders(hosts_)[r], sum_of(kCount), "test", 1, Protocol::queued,
                          {WireFormat::exact, hosts_});
    EXPECT_EQ(is_early(*plans_[r]), rank % 2 == 0);
    runner_.executors[r]->start({plans_[r].get(),
                                 fingerprint_of(sum_of(count), "test", 1, 0),
                                 {&buffers_[r], 1},
                                 {},
                                 {},
                                 false});
  }
  // Steps these ranks until nothing moves. A rank that has failed is not stepped any more.
  void step(std::vector<size_t> ranks) {
    for (int iteration = 0; iteration < 500; ++iteration)
      for (const size_t r : ranks) {
        bool progressed = false;
        if (!errors_[r].empty() || runner_.executors[r]->idle()) continue;
        if (const Status s = runner_.executors[r]->step(progressed); !s)
          errors_[r] = s.error().cause;
      }
  }
  uint64_t received(size_t rank, size_t from) const {
    return runner_.meshes[rank]->totals[kCollectiveChannel][from].received;
  }

  static constexpr size_t kCount = 3;
  const std::vector<int> hosts_ = {0, 0, 1, 1};
  Memory memory_ = Memory(4, std::vector<int64_t>(kCount, 1));
  std::vector<void*> buffers_ = {memory_[0].data(), memory_[1].data(), memory_[2].data(),
                                 memory_[3].data()};
  std::vector<std::shared_ptr<Plan>> plans_{4};
  std::vector<std::string> errors_{4};
  Runner runner_{4, LoopbackFaults{}};
};

TEST_F(DelayedData, ALeaderHasTheDataOfItsHostBeforeAnotherHostBegins) {
  const Memory before = memory_;
  for (const int rank : {0, 1, 2}) start(rank, kCount);
  step({0, 1, 2});
  EXPECT_EQ(received(0, 1), 2u);  // the fingerprint, and the data
  EXPECT_EQ(received(1, 0), 0u);
  EXPECT_EQ(memory_, before);
  start(3, kCount);
  step({0, 1, 2, 3});
  EXPECT_EQ(memory_, Memory(4, std::vector<int64_t>(kCount, 4)));
}

TEST_F(DelayedData, NothingIsWrittenWhereOneRankCallsSomethingElse) {
  const Memory before = memory_;
  for (const int rank : {0, 1, 2, 3}) start(rank, rank == 3 ? kCount + 1 : kCount);
  step({0, 1, 2, 3});
  EXPECT_EQ(errors_[2],
            "rank 2 called all_reduce int64 x 3, sum (#0) while rank 3 called all_reduce int64 x "
            "4, sum (#0)");
  EXPECT_EQ(received(0, 1), 2u);
  EXPECT_EQ(memory_, before);
}

}  // namespace
}  // namespace ringwood::testing

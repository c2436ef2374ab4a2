// The network measured again in the middle of a program: every call has the right result, all ranks
// do it at the same operation, and the group ends as ever where one of them gives up meanwhile.
#include <atomic>
#include <barrier>
#include <functional>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "collectives/epochs/epochs.h"
#include "tests/runtime/measuring_rank.h"
#include "tests/support/patience.h"
#include "tests/support/seeds.h"

namespace ringwood::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMeasurements = 1, kAborts = 2;
#else
constexpr int kMeasurements = 2, kAborts = 6;
#endif

void with_ranks(int n, const std::function<void(MeasuringRank&, int)>& body) {
  auto store = memory_store();
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      MeasuringRank rank(store, r, n);
      body(rank, r);
    });
  for (auto& thread : threads) thread.join();
}

class MeasuredAgain : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeasuredAgain, ::testing::Values(3, 4, 6));

TEST_P(MeasuredAgain, EveryCallIsRight) {
  for_seeds(1, [&](uint64_t seed) {
    SCOPED_TRACE(seed);
    std::atomic<int> done{0};
    with_ranks(GetParam(), [&](MeasuringRank& rank, int r) {
      std::mt19937_64 common(seed);
      ASSERT_TRUE(rank.call(common)) << "from here on all ranks can change";
      ASSERT_TRUE(rank.finish());
      for (int i = 0; i < kMeasurements; ++i) {
        if (r == 0) rank.engine->mesh().control->propose({std::string(kMeasureAgain), "a test"});
        // All ranks stop at the same call: rank 0 tells them in a sum.
        for (int32_t more = 1; more > 0;) {
          for (int k = 0; k < 20; ++k) {
            const Status s = rank.call(common);
            ASSERT_TRUE(s) << s.error().message();
          }
          const Status s = rank.finish();
          ASSERT_TRUE(s) << s.error().message();
          more = r == 0 && rank.planner->weighed <= i;
          auto state = std::make_shared<CollectiveState>(rank.engine, "all_reduce", kPatience);
          state->draft().plan = rank.plan_of_one();
          state->draft().buffers = {&more};
          const Status told = rank.engine->call(state);
          ASSERT_TRUE(told) << told.error().message();
        }
      }
      ++done;
      if (r != 0) EXPECT_EQ(rank.planner->weighed, 0) << "that is rank 0's";
    });
    EXPECT_EQ(done, GetParam());
  });
}

// One rank ends the group before, in or after the measurement: nobody hangs.
TEST_P(MeasuredAgain, AnAbortEndsIt) {
  std::mt19937_64 random(GetParam());
  for (int i = 0; i < kAborts; ++i) {
    const auto pause = std::chrono::microseconds(random() % 100000);
    const int who = static_cast<int>(random() % static_cast<unsigned>(GetParam()));
    std::barrier all_have_called(GetParam());
    with_ranks(GetParam(), [&](MeasuringRank& rank, int r) {
      std::mt19937_64 common(7);
      EXPECT_TRUE(rank.call(common) && rank.finish());
      all_have_called.arrive_and_wait();
      if (r == 0) rank.engine->mesh().control->propose({std::string(kMeasureAgain), "a test"});
      std::thread other([&] {
        std::this_thread::sleep_for(pause);
        if (r == who) rank.engine->abort("enough");
      });
      Status s;
      for (const Deadline limit = patiently(); s && !limit.passed();) s = rank.call(common);
      EXPECT_FALSE(s);
      if (!s)  // a rank that hears of the abort late may see its links end first
        EXPECT_TRUE(s.error().code == ErrorCode::aborted || s.error().code == ErrorCode::peer_lost)
            << s.error().message();
      other.join();
      (void)rank.finish();
      all_have_called.arrive_and_wait();  // whoever leaves earlier is lost to the others
    });
  }
}

}  // namespace
}  // namespace ringwood::testing

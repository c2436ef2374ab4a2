// Counting the calls of a group: by collective, in runs, and read while they change; and of which
// operations a plan has whole records.
#include "collectives/recorder/call_counter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

TEST(CallCounter, CountsByCollectiveWhateverFollowsWhat) {
  CallCounter calls;
  const CallKind small(Collective::all_reduce, 8), large(Collective::all_reduce, 1 << 20),
      barrier(Collective::barrier, 0);
  EXPECT_EQ(calls.of(Collective::all_reduce).operations, 0u);
  uint64_t number = 0;
  for (const CallKind& kind : {small, small, large, barrier, barrier, small, large, large})
    EXPECT_EQ(calls.take(kind), number++);
  EXPECT_EQ(calls.next(), number);
  EXPECT_EQ(calls.of(Collective::all_reduce).operations, 6u);
  EXPECT_EQ(calls.of(Collective::all_reduce).bytes, 3u * 8 + 3u * (1 << 20));
  EXPECT_EQ(calls.of(Collective::barrier).operations, 2u);
  EXPECT_EQ(calls.of(Collective::barrier).bytes, 0u);
  EXPECT_EQ(calls.of(Collective::reduce).operations, 0u);
}

TEST(CallCounter, KeepsCollectiveAndBytesApart) {
  for (int i = 0; i < kCollectives; ++i) {
    const CallKind kind(static_cast<Collective>(i), (uint64_t{1} << 50) + 3);
    EXPECT_EQ(static_cast<int>(kind.collective()), i);
    EXPECT_EQ(kind.bytes(), (uint64_t{1} << 50) + 3);
  }
}

// Each all-reduce has 8 bytes: a reader that mixes two runs sees another number of them.
TEST(CallCounter, IsReadWholeWhileRunsChange) {
  CallCounter calls;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    uint64_t before = 0;
    while (!over) {
      const CallTotals now = calls.of(Collective::all_reduce);
      ASSERT_EQ(now.bytes, 8 * now.operations);
      ASSERT_GE(now.operations, before);
      before = now.operations;
    }
  });
  constexpr int kCalls = 300000;
  for (int i = 0; i < kCalls; ++i)
    calls.take(i % 3 == 0 ? CallKind(Collective::broadcast, 64)
                          : CallKind(Collective::all_reduce, 8));
  over = true;
  reader.join();
  EXPECT_EQ(calls.of(Collective::all_reduce).operations, kCalls / 3 * 2u);
}

// Two ranks have 8 steps at most: 0.4 us of reading clocks.
RecordedFacts facts_of(double predicted_seconds) {
  Plan plan;
  plan.schedule.n = 2;
  plan.form.segments = 1;
  plan.key.args.count = 1024;
  return add_recording(std::move(plan), predicted_seconds).recorded;
}

TEST(RecordedFacts, StepsCostLessThanOneInAThousand) {
  for (const auto& [us, one_in] : {std::pair{500, 1}, {400, 1}, {200, 2}, {100, 4}, {40, 16}}) {
    const RecordedFacts facts = facts_of(us * 1e-6);
    EXPECT_EQ(facts.unrecorded_bits, 0u) << us;
    EXPECT_EQ(facts.stepless_bits, static_cast<uint64_t>(one_in) - 1) << us;
    for (const uint64_t turn : {0, 1}) {  // of two calls in turn both are seen
      int found = 0;
      for (uint64_t number = turn; number < 4096; number += 2)
        found += has_recorded_steps(facts, number);
      EXPECT_NEAR(found, 2048 / one_in, 8) << us << " " << turn;
    }
  }
}

TEST(RecordedFacts, TheSampleHasEverything) {
  const RecordedFacts facts = facts_of(1e-6);
  EXPECT_TRUE(is_recorded(facts, 3 * kSampled) && has_recorded_steps(facts, 3 * kSampled));
  EXPECT_FALSE(is_recorded(facts, 3 * kSampled + 1));
}

}  // namespace
}  // namespace ringwood

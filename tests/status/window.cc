// How the time of a rank is divided up, from its records: a late rank and a slow link look
// different.
#include "collectives/status/window.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

constexpr int64_t kMs = 1'000'000, kNow = 100'000 * kMs;

OperationRecord whole(int64_t entered, int64_t agreed, int64_t ended, double predicted = 1e-3) {
  OperationRecord record;
  record.entered_ns = record.begun_ns = entered;
  record.agreed_ns = agreed;
  record.ended_ns = ended;
  record.predicted_seconds = predicted;
  record.bytes = 1 << 20;
  record.end = RecordedEnd::done;
  return record;
}

TEST(Window, ALateRankIsOutsideAndTheOthersWait) {
  std::vector<OperationRecord> late, others;
  for (int i = 100; i > 0; --i) {
    const int64_t call = kNow - i * 10 * kMs;  // of the late one: the last
    late.push_back(whole(call, call, call + 2 * kMs));
    others.push_back(whole(call - 5 * kMs, call, call + 2 * kMs));
  }
  const WindowReport a = window_of(late, kNow, 0), b = window_of(others, kNow, 0);
  EXPECT_EQ(a.window_ns, kWindowNs);
  EXPECT_EQ(a.inside_ns, 200 * kMs);
  EXPECT_EQ(a.waited_ns, 0);
  EXPECT_EQ(a.waits, 0u);
  EXPECT_NEAR(double(b.inside_ns), 700.0 * kMs, 10.0 * kMs);
  EXPECT_NEAR(double(b.waited_ns), 500.0 * kMs, 10.0 * kMs);
  EXPECT_NEAR(b.waits, 100, 1);
  EXPECT_EQ(a.whole, 100u);
  EXPECT_NEAR(double(a.moving_ns) / double(a.predicted_ns), 2, 1e-6) << "lateness does not count";
  EXPECT_NEAR(double(b.moving_ns) / double(b.predicted_ns), 2, 0.05);
}

TEST(Window, WhatIsUnderWayCountsUntilNow) {
  OperationRecord running = whole(kNow - 300 * kMs, 0, 0);
  running.end = RecordedEnd::running;
  const WindowReport window = window_of({&running, 1}, kNow, 0);
  EXPECT_EQ(window.inside_ns, 300 * kMs);
  EXPECT_EQ(window.waited_ns, 300 * kMs);
  EXPECT_EQ(window.whole, 0u);
}

TEST(Window, OverlapsCountOnceAndOldOnesNot) {
  const std::vector<OperationRecord> records = {
      whole(kNow - 5000 * kMs, kNow - 4000 * kMs, kNow - 3000 * kMs),
      whole(kNow - 1500 * kMs, kNow - 1400 * kMs, kNow - 900 * kMs),
      whole(kNow - 950 * kMs, kNow - 920 * kMs, kNow - 800 * kMs)};
  const WindowReport window = window_of(records, kNow, 0);
  EXPECT_EQ(window.inside_ns, 200 * kMs);
  EXPECT_EQ(window.waited_ns, 30 * kMs);
  EXPECT_EQ(window.waits, 1u);
  // Where the recorder has no more, the window is shorter.
  EXPECT_EQ(window_of(records, kNow, kNow - 400 * kMs).window_ns, 400 * kMs);
}

// Operations of 30 us, back to back, of which the recorder has the last tenth of a second.
TEST(Window, AFullRecorderHasAShortWindow) {
  std::vector<OperationRecord> records;
  const int64_t each = 30'000, count = 4096;
  for (int64_t i = count; i > 0; --i)
    records.push_back(whole(kNow - i * each, kNow - i * each + each / 2, kNow - (i - 1) * each));
  const int64_t begun = kNow - 5000 * kMs;
  for (const size_t overwritten : {size_t{1}, size_t{100}}) {  // while they were read
    const auto left = std::span(records).subspan(overwritten);
    const WindowReport window =
        window_of(left, kNow, complete_since(left, count + overwritten, begun, kNow));
    EXPECT_EQ(window.window_ns, (count - int64_t(overwritten) - 1) * each);
    EXPECT_EQ(window.inside_ns, window.window_ns);
    EXPECT_NEAR(double(window.waited_ns), double(window.window_ns) / 2, double(each));
  }
  EXPECT_EQ(complete_since(records, count, begun, kNow), begun) << "there were no others";
  EXPECT_EQ(complete_since({}, 0, begun, kNow), begun);
  EXPECT_EQ(complete_since({}, 5000, begun, kNow), kNow) << "all were overwritten";
}

TEST(Window, AShortRecordKnowsOnlySinceWhenItWaited) {
  OperationRecord record;
  record.waiting_ns = kNow - 50 * kMs;
  record.ended_ns = kNow - 40 * kMs;
  record.end = RecordedEnd::done;
  const WindowReport window = window_of({&record, 1}, kNow, 0);
  EXPECT_EQ(window.inside_ns, 10 * kMs);
  EXPECT_EQ(window.waited_ns, 10 * kMs);
  EXPECT_TRUE(kinds_of({&record, 1}, 0).empty()) << "its duration is not known";
}

TEST(Window, KindsAreSortedByTheirTime) {
  std::vector<OperationRecord> records;
  for (int i = 0; i < 10; ++i) records.push_back(whole(kNow - kMs, kNow - kMs, kNow));
  OperationRecord large = whole(kNow - 50 * kMs, kNow - 50 * kMs, kNow);
  large.bytes = 1 << 26;
  records.push_back(large);
  const std::vector<KindReport> kinds = kinds_of(records, kNow - kWindowNs);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].bytes, uint64_t{1} << 26);
  EXPECT_EQ(kinds[0].mean_ns, 50 * kMs);
  EXPECT_EQ(kinds[1].operations, 10u);
  EXPECT_EQ(kinds[1].predicted_ns, kMs);
}

}  // namespace
}  // namespace ringwood

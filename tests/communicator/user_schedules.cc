// Schedules that are in no table run as those of the table do: proved, agreed on, exact.
#include <atomic>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/proved_schedules.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

using UserSchedules = OnTransport;
INSTANTIATE_TEST_SUITE_P(Transports, UserSchedules, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// Three ranks: all send to rank 1, which adds up and sends back. No row of the table does that.
constexpr const char* kStar =
    "schedule rank 0 of 3 chunks 1\nsend 1 [0]\nrecv 1 [0]\n"
    "schedule rank 1 of 3 chunks 1\n"
    "recv_reduce 0 [0]\nrecv_reduce 2 [0]\nsend 0 [0]\nsend 2 [0]\n"
    "schedule rank 2 of 3 chunks 1\nsend 1 [0]\nrecv 1 [0]\n";

TEST_P(UserSchedules, RunInAnySizeAndType) {
  const auto star = ProvedSchedules::parse(Collective::all_reduce, kStar);
  run_ranks(3, GetParam(), [&](Communicator& c) {
    for (const size_t count : {1, 100, 5000, 300000})
      for (const bool synchronous : {false, true})
        for (const int segments : {0, 3}) {
          CallOptions call;
          call.schedules = star;
          call.segments = segments;
          call.synchronous = synchronous;
          std::vector<int64_t> sums(count, 1 + c.rank());
          must(c.all_reduce(sums.data(), count, DataType::int64, ReduceOp::sum, call));
          EXPECT_EQ(sums, std::vector<int64_t>(count, 6));
          std::vector<float> means(count, static_cast<float>(c.rank()));
          must(c.all_reduce(means.data(), count, DataType::float32, ReduceOp::avg, call));
          EXPECT_EQ(means, std::vector<float>(count, 1));
          // The choice is not disturbed.
          call.schedules = nullptr;
          std::iota(sums.begin(), sums.end(), c.rank());
          must(c.all_reduce(sums.data(), count, DataType::int64, ReduceOp::max, call));
          EXPECT_EQ(sums.back(), static_cast<int64_t>(count) + 1);
        }
  });
}

TEST_P(UserSchedules, ThatDifferBetweenRanksAreNamed) {
  const AlgorithmRow& ring = *find_algorithm(Collective::all_reduce, "ring");
  const auto star = ProvedSchedules::parse(Collective::all_reduce, kStar);
  const auto other = ProvedSchedules::create(Collective::all_reduce, build_all(ring, {0, 3}));
  EXPECT_NE(star->hash(), other->hash());
  for (const bool table : {false, true}) {
    std::atomic<int> ready{0};
    run_ranks(3, GetParam(), [&](Communicator& c) {
      start_together(c, ready);
      CallOptions call;
      if (c.rank() > 0)
        call.schedules = star;
      else if (table)
        call.algorithm = "ring";
      else
        call.schedules = other;
      float x = 1;
      const Status s = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum, call)->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::mismatch);
      EXPECT_PRED2(contains, s.error().message(), table ? "the user's schedules" : "schedules");
      EXPECT_EQ(x, 1);
    });
  }
}

TEST(UserSchedulesOfAText, AreProvedFirst) {
  const std::string wrong =
      std::string(kStar).replace(std::string(kStar).find("recv_reduce 2"), 13, "recv 2       ");
  EXPECT_PRED2(contains,
               error_of([&] { ProvedSchedules::parse(Collective::all_reduce, wrong); }).cause,
               "these schedules are no all_reduce");
}

TEST(UserSchedulesOfAText, AreRefusedForOtherCalls) {
  const auto star = ProvedSchedules::parse(Collective::all_reduce, kStar);
  run_ranks(2, [&](Communicator& c) {
    CallOptions call;
    call.schedules = star;
    float x = 1;
    const Error error =
        error_of([&] { (void)c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum, call); });
    EXPECT_PRED2(contains, error.cause, "they are for all_reduce of 3 ranks");
    EXPECT_TRUE(c.health().ok());
  });
}

// The ranks compare 16 bits of their number.
TEST(UserSchedulesOfAText, AreRefusedInMoreSegmentsThanRanksCompare) {
  const auto star = ProvedSchedules::parse(Collective::all_reduce, kStar);
  run_ranks(3, [&](Communicator& c) {
    CallOptions call;
    call.schedules = star;
    float x = 1;
    const auto sum = [&](int segments) {
      call.segments = segments;
      return c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum, call);
    };
    for (const int segments : {65'536, 65'537, std::numeric_limits<int>::max()})
      EXPECT_PRED2(contains, error_of([&] { (void)sum(segments); }).cause, "at most 65535");
    must(sum(1));
    EXPECT_EQ(x, 3);
  });
}

}  // namespace
}  // namespace ringwood::testing

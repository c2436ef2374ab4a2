// Ranks that do not call the same: every rank hears who called what, and no buffer is written.
#include <atomic>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

struct Odd {
  const char* name;
  const char* text;  // what the odd rank called
  std::function<OperationPtr(Communicator&, std::vector<float>&)> call;
};
const Odd kOdd[] = {
    {"size", "all_reduce float32 x 5, sum",
     [](auto& c, auto& x) { return c.all_reduce(x.data(), 5, DataType::float32, ReduceOp::sum); }},
    {"type", "all_reduce int32 x 4, sum",
     [](auto& c, auto& x) { return c.all_reduce(x.data(), 4, DataType::int32, ReduceOp::sum); }},
    {"op", "all_reduce float32 x 4, max",
     [](auto& c, auto& x) { return c.all_reduce(x.data(), 4, DataType::float32, ReduceOp::max); }},
    {"collective", "broadcast float32 x 4, root 0",
     [](auto& c, auto& x) { return c.broadcast(x.data(), 4, DataType::float32, 0); }},
    {"barrier", "barrier", [](auto& c, auto&) { return c.barrier(); }},
};
struct MismatchCase {
  int odd;
  int n;
  std::string transports;
};
class Mismatch : public OnTransportOf<MismatchCase> {};
std::vector<MismatchCase> mismatches() {
  std::vector<MismatchCase> all;
  for (int odd = 0; odd < 5; ++odd)
    for (int n : {2, 3, 6})
      for (const std::string& t : every_transport()) all.push_back({odd, n, t});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Calls, Mismatch, ::testing::ValuesIn(mismatches()), [](const auto& info) {
  return fmt::format("{}_{}_{}", kOdd[info.param.odd].name, info.param.n, info.param.transports);
});

TEST_P(Mismatch, EveryRankHearsWhoCalledWhatAndNoBufferIsWritten) {
  const auto& p = GetParam();
  const int culprit = p.n - 1;
  std::atomic<int> ready{0};
  run_ranks(
      p.n, p.transports,
      [&](Communicator& c) {
        std::vector<float> x(8, static_cast<float>(c.rank() + 1));
        const std::vector<float> before = x;
        start_together(c, ready);
        OperationPtr op = c.rank() == culprit
                              ? kOdd[p.odd].call(c, x)
                              : c.all_reduce(x.data(), 4, DataType::float32, ReduceOp::sum);
        Status s = op->wait();
        if (s.ok()) throw std::runtime_error("no error");
        const std::string text = s.error().message();
        EXPECT_EQ(s.error().code, ErrorCode::mismatch) << text;
        EXPECT_NE(text.find(kOdd[p.odd].text), std::string::npos) << text;
        EXPECT_NE(text.find("all_reduce float32 x 4, sum"), std::string::npos) << text;
        EXPECT_NE(text.find(fmt::format("rank {}", culprit)), std::string::npos) << text;
        EXPECT_EQ(x, before);
      },
      unhurried_for);
}

class MismatchOn : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, MismatchOn, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

TEST_P(MismatchOn, RootsOfABroadcast) {
  std::atomic<int> ready{0};
  run_ranks(3, GetParam(), [&](Communicator& c) {
    start_together(c, ready);
    float x = static_cast<float>(c.rank());
    Status s = c.broadcast(&x, 1, DataType::float32, c.rank() == 1 ? 1 : 0)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message().find("broadcast float32 x 1, root 1"), std::string::npos)
        << s.error().message();
    EXPECT_EQ(x, static_cast<float>(c.rank()));
  });
}

// Rank `wrong_at` expects one element more from `from` than that sends. Every rank hears of it,
// also one whose own pairs agree.
TEST_P(MismatchOn, SizesOfAPairInAllToAll) {
  for (const size_t most : {2, 3000})
    for (int n : {2, 3, 4})
      for (int wrong_at : {0, n - 1})
        for (int from = 0; from < n; ++from) {
          if (from == wrong_at) continue;
          std::atomic<int> ready{0};
          run_ranks(n, GetParam(), [&](Communicator& c) {
            start_together(c, ready);
            const size_t room = most + 2;
            std::vector<int> in(room * n, 1), out(room * n, 2);
            std::vector<ConstBlock> give;
            std::vector<Block> take;
            for (int p = 0; p < n; ++p) {
              const bool wrong = c.rank() == wrong_at && p == from;
              give.push_back({&in[room * p], most});
              take.push_back({&out[room * p], most + (wrong ? 1 : 0)});
            }
            // A rank that comes after two others have found it is refused.
            const auto call = [&]() -> Status {
              try {
                return c.all_to_all(give, take, DataType::int32)->wait();
              } catch (Error& refused) {
                return std::move(refused);
              }
            };
            Status s = call();
            ASSERT_FALSE(s.ok()) << "rank " << c.rank();
            EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
            EXPECT_EQ(out, std::vector<int>(room * n, 2)) << "rank " << c.rank();
          });
          if (HasFailure())
            FAIL() << most << " elements, " << n << " ranks, wrong at " << wrong_at << " from "
                   << from;
        }
}

// Rank 0 gives and takes as much everywhere; the others do not among themselves.
TEST_P(MismatchOn, NoneWhereOnlySomeRanksHaveEvenSizes) {
  const int n = 4;
  const auto size = [](int from, int to) {
    return static_cast<size_t>(from == 0 || to == 0 ? 5 : 1 + from * 2 + to);
  };
  run_ranks(n, GetParam(), [&](Communicator& c) {
    for (int again = 0; again < 20; ++again) {
      std::vector<int> in(n * 16), out(n * 16, -1), want(n * 16, -1);
      std::vector<ConstBlock> give;
      std::vector<Block> take;
      for (int p = 0; p < n; ++p) {
        std::fill_n(&in[16 * p], 16, 100 * c.rank() + 10 * p + again);
        std::fill_n(&want[16 * p], size(p, c.rank()), 100 * p + 10 * c.rank() + again);
        give.push_back({&in[16 * p], size(c.rank(), p)});
        take.push_back({&out[16 * p], size(p, c.rank())});
      }
      must(c.all_to_all(give, take, DataType::int32));
      ASSERT_EQ(out, want) << "rank " << c.rank();
    }
  });
}

}  // namespace
}  // namespace ringwood::testing

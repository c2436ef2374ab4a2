// Ranks that do not call the same: every rank hears who called what, and no buffer is written.
#include <atomic>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ranks.h"

namespace ringwood::testing {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

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
  const char* transports;
};
class Mismatch : public ::testing::TestWithParam<MismatchCase> {};
std::vector<MismatchCase> mismatches() {
  std::vector<MismatchCase> all;
  for (int odd = 0; odd < 5; ++odd)
    for (int n : {2, 3, 6})
      for (const char* t : {"shm", "tcp"}) all.push_back({odd, n, t});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Calls, Mismatch, ::testing::ValuesIn(mismatches()), [](const auto& info) {
  return fmt::format("{}_{}_{}", kOdd[info.param.odd].name, info.param.n, info.param.transports);
});

TEST_P(Mismatch, EveryRankHearsWhoCalledWhatAndNoBufferIsWritten) {
  const auto& p = GetParam();
  const int culprit = p.n - 1;
  std::atomic<int> ready{0};
  run_ranks(p.n, p.transports, [&](Communicator& c) {
    std::vector<float> x(8, static_cast<float>(c.rank() + 1));
    const std::vector<float> before = x;
    must(c.barrier());
    // The verdict must not overtake somebody's end of the barrier.
    for (++ready; ready < p.n;) std::this_thread::yield();
    const auto start = Clock::now();
    OperationPtr op = c.rank() == culprit
                          ? kOdd[p.odd].call(c, x)
                          : c.all_reduce(x.data(), 4, DataType::float32, ReduceOp::sum);
    Status s = op->wait();
    const double took = seconds_since(start);
    if (s.ok()) throw std::runtime_error("no error");
    const std::string text = s.error().message();
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << text;
    EXPECT_NE(text.find(kOdd[p.odd].text), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce float32 x 4, sum"), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("rank {}", culprit)), std::string::npos) << text;
    EXPECT_EQ(x, before);
    EXPECT_LT(took, 1.0);  // 0.1 s on a free machine; here ranks outnumber cores
  });
}

TEST(Mismatch, RootsOfABroadcast) {
  run_ranks(3, "shm", [&](Communicator& c) {
    float x = static_cast<float>(c.rank());
    Status s = c.broadcast(&x, 1, DataType::float32, c.rank() == 1 ? 1 : 0)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message().find("broadcast float32 x 1, root 1"), std::string::npos)
        << s.error().message();
    EXPECT_EQ(x, static_cast<float>(c.rank()));
  });
}

TEST(Mismatch, SizesOfAPairInAllToAll) {
  run_ranks(3, "tcp", [&](Communicator& c) {
    std::vector<int> in(6, 1), out(12, 2);
    std::vector<ConstBlock> from;
    std::vector<Block> to;
    for (int p = 0; p < 3; ++p) {
      from.push_back({&in[2 * p], 2});
      to.push_back({&out[4 * p], static_cast<size_t>(c.rank() == 0 && p == 2 ? 3 : 2)});
    }
    Status s = c.all_to_all(from, to, DataType::int32)->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
    EXPECT_EQ(out, std::vector<int>(12, 2));
  });
}

}  // namespace
}  // namespace ringwood::testing

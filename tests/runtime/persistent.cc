// Persistent operations: made once, started again and again.
#include <atomic>
#include <functional>
#include <future>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/allocations.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

constexpr int kRuns = 4;
constexpr size_t kCount = 3000;

class Persistent : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, Persistent, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

CallOptions persistent(bool synchronous) {
  CallOptions call;
  call.persistent = true;
  call.synchronous = synchronous;
  return call;
}

OperationPtr sum(Communicator& c, std::vector<float>& x, bool synchronous) {
  return c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum,
                      persistent(synchronous));
}

void check(const char* what, const std::vector<float>& got, size_t i, double want) {
  if (got[i] != want)
    throw std::runtime_error(fmt::format("{}: element {} is {} not {}", what, i, got[i], want));
}

// All collectives over the same two buffers, and what is there after run `t`.
struct Case {
  const char* name;
  bool in_place;  // the result is in `in`
  std::function<OperationPtr(Communicator&, std::vector<float>& in, std::vector<float>& out,
                             const CallOptions&)>
      make;
  // Of rank r of n, with block k of kCount elements; negative: not looked at.
  std::function<double(int t, int r, int n, int k)> want;
};

double put(int t, int rank, int block) { return 1 + t + 10 * rank + 100 * block; }

std::vector<Case> cases() {
  const auto type = DataType::float32;
  const auto blocks = [](auto& x, int n, auto block) {
    std::vector<decltype(block)> all;
    for (int k = 0; k < n; ++k) all.push_back({x.data() + k * kCount, kCount});
    return all;
  };
  const auto sum_of = [](int t, int n, int k) {
    double all = 0;
    for (int r = 0; r < n; ++r) all += put(t, r, k);
    return all;
  };
  return {
      {"all_reduce", true,
       [=](Communicator& c, auto& in, auto&, auto& how) {
         return c.all_reduce(in.data(), kCount, type, ReduceOp::sum, how);
       },
       [=](int t, int, int n, int k) { return k ? -1 : sum_of(t, n, 0); }},
      {"all_reduce of factors", true,
       [=](Communicator& c, auto& in, auto&, CallOptions how) {
         how.factor = 2;
         return c.all_reduce(in.data(), kCount, type, ReduceOp::premul_sum, how);
       },
       [=](int t, int, int n, int k) { return k ? -1 : 2 * sum_of(t, n, 0); }},
      {"reduce", true,
       [=](Communicator& c, auto& in, auto&, CallOptions how) {
         how.factor = 4;
         return c.reduce(in.data(), kCount, type, ReduceOp::premul_sum, 1, how);
       },
       [=](int t, int r, int n, int k) { return r != 1 || k ? -1 : 4 * sum_of(t, n, 0); }},
      {"broadcast", true,
       [=](Communicator& c, auto& in, auto&, auto& how) {
         return c.broadcast(in.data(), kCount, type, 1, how);
       },
       [](int t, int, int, int k) { return k ? -1 : put(t, 1, 0); }},
      {"all_gather", false,
       [=](Communicator& c, auto& in, auto& out, auto& how) {
         return c.all_gather(in.data(), out.data(), kCount, type, how);
       },
       [](int t, int, int, int k) { return put(t, k, 0); }},
      {"reduce_scatter", false,
       [=](Communicator& c, auto& in, auto& out, CallOptions how) {
         how.factor = 2;
         return c.reduce_scatter(in.data(), out.data(), kCount, type, ReduceOp::premul_sum, how);
       },
       [=](int t, int r, int n, int k) { return k ? -1 : 2 * sum_of(t, n, r); }},
      {"all_to_all", false,
       [=](Communicator& c, auto& in, auto& out, auto& how) {
         return c.all_to_all(blocks(in, c.size(), ConstBlock{}), blocks(out, c.size(), Block{}),
                             type, how);
       },
       [](int t, int r, int, int k) { return put(t, k, r); }},
      {"gather", false,
       [=](Communicator& c, auto& in, auto& out, auto& how) {
         return c.gather({in.data(), kCount}, blocks(out, c.size(), Block{}), type, 1, how);
       },
       [](int t, int r, int, int k) { return r == 1 ? put(t, k, 0) : -1; }},
      {"scatter", false,
       [=](Communicator& c, auto& in, auto& out, auto& how) {
         return c.scatter(blocks(in, c.size(), ConstBlock{}), {out.data(), kCount}, type, 1, how);
       },
       [](int t, int r, int, int k) { return k ? -1 : put(t, 1, r); }},
      {"barrier", true, [](Communicator& c, auto&, auto&, auto& how) { return c.barrier(how); },
       [](int, int, int, int) { return -1; }},
  };
}

void run_again(Communicator& c, const Case& the, bool synchronous) {
  const int n = c.size();
  std::vector<float> in(n * kCount), out(n * kCount);
  const auto op = the.make(c, in, out, persistent(synchronous));
  EXPECT_TRUE(op->done());
  must(op);
  for (int t = 0; t < kRuns; ++t) {
    for (int k = 0; k < n; ++k) std::fill_n(in.begin() + k * kCount, kCount, put(t, c.rank(), k));
    must(op->start());
    must(op);
    for (int k = 0; k < n; ++k)
      if (const double want = the.want(t, c.rank(), n, k); want >= 0)
        for (size_t i : {size_t{0}, kCount / 2, kCount - 1})
          check(the.name, the.in_place ? in : out, k * kCount + i, want);
  }
}

TEST_P(Persistent, EveryCollectiveRunsAgain) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    for (const Case& the : cases())
      for (bool synchronous : {true, false}) run_again(c, the, synchronous);
  });
}

// Factors of 16-bit floats are gathered by the making.
TEST_P(Persistent, GathersFactorsOnce) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    uint16_t x = 0;  // bfloat16
    CallOptions how = persistent(false);
    how.factor = c.rank() ? 2 : 4;
    auto op = c.all_reduce(&x, 1, DataType::bfloat16, ReduceOp::premul_sum, how);
    for (int t = 0; t < kRuns; ++t) {
      x = 0x3f80;  // 1
      must(op->start());
      must(op);
      if (x != 0x40c0) throw std::runtime_error(fmt::format("{:x} is not 6", x));
    }
    EXPECT_EQ(op->sequence(), kRuns);
  });
}

TEST_P(Persistent, MessagesRunAgain) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    for (size_t count : {size_t{1}, size_t{100000}})
      for (bool synchronous : {true, false}) {
        std::vector<float> x(count);
        auto op = c.rank()
                      ? c.recv(x.data(), count, DataType::float32, 0, 7, persistent(synchronous))
                      : c.send(x.data(), count, DataType::float32, 1, 7, persistent(synchronous));
        for (int t = 0; t < kRuns; ++t) {
          std::fill(x.begin(), x.end(), c.rank() ? 0 : t + 1);
          must(op->start());
          must(op);
          check("message", x, count - 1, t + 1);
          EXPECT_EQ(op->source(), c.rank() ? 0 : -1);
        }
      }
  });
}

TEST_P(Persistent, SeveralAreInFlightAndEachIsRefusedUntilItIsDone) {
  std::promise<void> asked;
  auto go = asked.get_future().share();
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::vector<float> a(10, 1), b(10, 2);
    auto first = sum(c, a, false), second = sum(c, b, false);
    if (c.rank() == 1) go.wait();
    must(first->start());
    must(second->start());
    if (c.rank() == 0) {
      for (auto& op : {first, second}) {
        const Status s = op->start();
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, ErrorCode::invalid_argument);
        EXPECT_NE(s.error().cause.find("in flight"), std::string::npos) << s.error().cause;
      }
      asked.set_value();
    }
    must(second);
    must(first);
    must(first->start());
    must(first);
    EXPECT_EQ(a[9], 4);
    EXPECT_EQ(b[9], 4);
  });
}

TEST_P(Persistent, OthersCannotBeStarted) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    float x = 1;
    auto op = c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum);
    must(op);
    const Status s = op->start();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(s.error().cause.find("persistent"), std::string::npos) << s.error().cause;
  });
}

// Callbacks are of one run; the next may be started by them.
TEST_P(Persistent, RunsAgainFromItsCallback) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::vector<float> x(5, 1);
    auto op = sum(c, x, false);
    std::atomic<int> runs{0};
    std::promise<void> over;
    std::function<void(const Error*)> again = [&](const Error* error) {
      if (error || ++runs == 20) return over.set_value();
      if (Status s = op->start(); !s) return over.set_value();
      op->on_done(again);
    };
    must(op->start());
    op->on_done(again);
    over.get_future().wait();
    must(op);
    EXPECT_EQ(runs, 20);
    EXPECT_EQ(x[4], 1 << 20);
  });
}

TEST_P(Persistent, IsAskedWhileAnotherThreadRestartsIt) {
  constexpr int kRestarts = 20000;
  run_ranks(1, GetParam(), [&](Communicator& c) {
    std::vector<float> x(5, 1);
    auto op = sum(c, x, true);
    must(op->start());
    std::atomic<bool> over{false};
    std::atomic<int> errors{0}, answers{0};
    int questions = 0;
    std::thread other([&] {
      for (; !over; ++questions)
        op->on_done([&](const Error* error) { ++answers, errors += error != nullptr; });
    });
    for (int i = 0; i < kRestarts; ++i) must(op->start());
    over = true;
    other.join();
    must(op);
    EXPECT_EQ(answers, questions);
    EXPECT_EQ(errors, 0);
  });
}

TEST_P(Persistent, AnotherCallOfAPeerIsFoundAndEndsIt) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::vector<float> x(10, 1);
    auto op = sum(c, x, false);
    must(op->start());
    must(op);
    if (c.rank() == 1) {
      EXPECT_FALSE(c.barrier()->wait().ok());
      return;
    }
    must(op->start());
    const Status s = op->wait();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
    EXPECT_EQ(x[0], 2);
    EXPECT_FALSE(op->start().ok());
    EXPECT_FALSE(op->wait().ok());
  });
}

TEST_P(Persistent, OutlivesItsCommunicatorInGoodOrder) {
  std::vector<OperationPtr> finished(2), pending(2);
  std::vector<std::vector<float>> x(4, std::vector<float>(100, 1));
  run_ranks(2, GetParam(), [&](Communicator& c) {
    const int r = c.rank();
    finished[r] = sum(c, x[r], r == 0);
    pending[r] = sum(c, x[2 + r], false);
    must(finished[r]->start());
    must(finished[r]);
    must(c.barrier({}));
    if (r == 0) must(pending[r]->start());  // and rank 1 does not
  });
  for (int r : {0, 1}) {
    EXPECT_TRUE(finished[r]->wait().ok());
    EXPECT_TRUE(pending[r]->done());
    EXPECT_EQ(pending[r]->wait().ok(), r == 1);
    for (const auto& op : {finished[r], pending[r]}) {
      const Status s = op->start();
      ASSERT_FALSE(s.ok());
      EXPECT_TRUE(op->done());
    }
  }
}

// What a thread asks for while it starts and waits, 100 times: a few links still let a list grow.
TEST_P(Persistent, AsksForNoMemory) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer has its own allocation, which is not counted";
  for (size_t count : {size_t{2}, size_t{50000}})
    for (bool synchronous : {true, false})
      run_ranks(2, GetParam(), [&](Communicator& c) {
        std::vector<float> x(count);
        auto op = sum(c, x, synchronous);
        const auto run = [&] {
          must(op->start());
          must(op->wait());
        };
        for (int i = 0; i < 100; ++i) run();
        const size_t before = allocations();
        for (int i = 0; i < 100; ++i) run();
        EXPECT_LT(allocations() - before, 10u) << count << (synchronous ? " synchronous" : "");
      });
}

}  // namespace
}  // namespace ringwood::testing

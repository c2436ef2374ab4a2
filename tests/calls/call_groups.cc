// Calls between group_start() and group_end(): small ones become one operation.
#include <atomic>
#include <functional>

#include <fmt/format.h>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/patience.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

class CallGroups : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(Transports, CallGroups, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

using Floats = std::vector<float>;

OperationPtr sum(Communicator& c, Floats& x, const CallOptions& call = {}) {
  return c.all_reduce(x.data(), x.size(), DataType::float32, ReduceOp::sum, call);
}

void expect_all(const Floats& x, float want, const char* what) {
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != want)
      throw std::runtime_error(
          fmt::format("{}: element {} of {} is {} not {}", what, i, x.size(), x[i], want));
}

TEST_P(CallGroups, SmallCallsAreOneOperationAndAllAreRight) {
  constexpr int n = 3;
  run_ranks(n, GetParam(), [&](Communicator& c) {
    const auto r = static_cast<float>(c.rank());
    std::vector<Floats> sums, roots, sent;
    std::vector<std::vector<int64_t>> most;
    for (size_t i = 0; i < 20; ++i) {
      sums.emplace_back(i * 7, r + i);  // also one of no elements
      most.emplace_back(i + 1, c.rank() * 100 + i);
      roots.emplace_back(i + 2, r + i);
      sent.emplace_back(i + 3, r == i % n ? 50.0f + i : 0.0f);
    }
    Floats large(100000, r), gathered(n), big_sum(9000, r);
    std::vector<OperationPtr> packed[3], alone;
    {
      GroupOfCalls group(c);
      for (size_t i = 0; i < 20; ++i) {
        packed[0].push_back(sum(c, sums[i]));
        packed[1].push_back(
            c.all_reduce(most[i].data(), most[i].size(), DataType::int64, ReduceOp::max));
        packed[2].push_back(
            c.reduce(roots[i].data(), roots[i].size(), DataType::float32, ReduceOp::sum, 1));
        c.broadcast(sent[i].data(), sent[i].size(), DataType::float32, static_cast<int>(i % n));
        if (i == 3) alone.push_back(sum(c, large));
        if (i == 4) alone.push_back(c.all_gather(&r, gathered.data(), 1, DataType::float32));
        if (i == 5) alone.push_back(sum(c, big_sum));
        if (i == 6) alone.push_back(c.barrier());
      }
      for (const auto& op : alone) EXPECT_FALSE(op->done());
      EXPECT_FALSE(packed[0][0]->done());
    }
    must(c.barrier());  // behind all of them
    const float all = 0 + 1 + 2;
    for (size_t i = 0; i < 20; ++i) {
      for (const auto& ops : packed) must(ops[i]);
      expect_all(sums[i], all + n * i, "sum");
      for (int64_t x : most[i]) EXPECT_EQ(x, 200 + static_cast<int64_t>(i));
      expect_all(roots[i], c.rank() == 1 ? all + n * i : r + i, "reduce");
      expect_all(sent[i], 50.0f + i, "broadcast");
    }
    expect_all(large, all, "large");
    expect_all(big_sum, all, "36 kB");
    for (int k = 0; k < n; ++k) EXPECT_EQ(gathered[k], k);
    // sums, most, roots, three broadcasts' roots, then what is on its own, in order of its calls.
    for (int k : {0, 1, 2})
      for (const auto& op : packed[k]) EXPECT_EQ(op->sequence(), k);
    for (size_t k = 0; k < alone.size(); ++k) EXPECT_EQ(alone[k]->sequence(), 6 + k);
  });
}

TEST_P(CallGroups, MessagesAndOtherCallsKeepTheirMeaning) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    const int other = 1 - c.rank();
    float out = 7, in = 0;
    std::vector<uint16_t> factored = {0x3f80, 0x3f80};  // 1 in bfloat16
    Floats a(3, 1), b(5, 2), avg(2, c.rank());
    CallOptions at_once, ring, doubled;
    at_once.synchronous = true;
    ring.algorithm = "one_shot";
    doubled.factor = 2;
    c.group_start();
    const OperationPtr ops[] = {
        c.send(&out, 1, DataType::float32, other, 3),
        c.recv(&in, 1, DataType::float32, other, 3),
        sum(c, a, at_once),
        sum(c, b, ring),
        c.all_reduce(factored.data(), 2, DataType::bfloat16, ReduceOp::premul_sum, doubled),
        c.all_reduce(avg.data(), 2, DataType::float32, ReduceOp::avg),
    };
    c.group_start();
    Floats inner(4, 3);
    auto nested = sum(c, inner);
    c.group_end();
    EXPECT_FALSE(nested->done());
    c.group_end();
    EXPECT_TRUE(ops[2]->done());  // it is synchronous
    for (const auto& op : ops) must(op);
    must(nested);
    EXPECT_EQ(in, 7);
    EXPECT_EQ(ops[1]->source(), other);
    expect_all(a, 2, "synchronous");
    expect_all(b, 4, "with an algorithm");
    EXPECT_EQ(factored[1], 0x4080);  // 4
    expect_all(avg, 0.5, "average");
    expect_all(inner, 6, "nested");
    EXPECT_EQ(nested->sequence(), ops[2]->sequence());
    EXPECT_NE(ops[3]->sequence(), ops[2]->sequence());
  });
}

TEST_P(CallGroups, NothingIsWaitedForBeforeTheEnd) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Floats a(3, 1), b(3, 1);
    std::atomic<int> called{0};
    c.group_start();
    auto first = sum(c, a), second = sum(c, b);
    for (const auto& op : {first, second}) {
      const Status s = op->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, ErrorCode::invalid_argument);
      EXPECT_NE(s.error().cause.find("group_end"), std::string::npos) << s.error().cause;
      EXPECT_FALSE(op->start().ok());
      op->on_done([&](const Error* error) { called += error ? 100 : 1; });
    }
    c.group_end();
    must(first);
    EXPECT_TRUE(second->done());
    second->on_done([&](const Error*) { ++called; });
    const auto until = patiently();
    while (called < 3 && !until.passed()) std::this_thread::yield();
    EXPECT_EQ(called, 3);
    EXPECT_THROW(c.group_end(), Error);
  });
}

// What the odd rank does instead of a group of sums of 3 and 5 elements.
struct Odd {
  const char* what;
  std::function<OperationPtr(Communicator&, Floats&, Floats&)> call;
};

TEST_P(CallGroups, AnotherGroupIsFoundAndNothingIsWritten) {
  const Odd odd[] = {
      {"with different block sizes",
       [](auto& c, auto& a, auto& b) {
         GroupOfCalls group(c);
         (void)sum(c, b);
         return sum(c, a);
       }},
      {"all_reduce float32 x 8, sum (#0)",
       [](auto& c, auto&, auto& b) {
         b.resize(8, 1);
         return sum(c, b);
       }},
      {"all_reduce float32 x 3, sum (#0)",
       [](auto& c, auto& a, auto&) {
         GroupOfCalls group(c);
         return sum(c, a);
       }},
  };
  for (const Odd& o : odd)
    run_ranks(3, GetParam(), [&](Communicator& c) {
      Floats a(3, 1), b(5, 1);
      std::vector<OperationPtr> ops;
      if (c.rank() == 2) {
        ops.push_back(o.call(c, a, b));
      } else {
        GroupOfCalls group(c);
        ops = {sum(c, a), sum(c, b)};
      }
      for (const auto& op : ops) {
        const Status s = op->wait();
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, ErrorCode::mismatch) << s.error().message();
        EXPECT_NE(s.error().message().find(o.what), std::string::npos) << s.error().message();
        EXPECT_NE(s.error().message().find("packed"), std::string::npos) << s.error().message();
      }
      expect_all(a, 1, "a");
      expect_all(b, 1, "b");
    });
}

TEST_P(CallGroups, EndWithTheirCommunicator) {
  std::vector<OperationPtr> left;
  Floats unsaid(2, 1);
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Floats a(3, 1), b(4, 1);
    (void)c.barrier()->wait();
    if (c.rank() == 1) return c.abort("enough");  // rank 0 hears it within the barrier, or later
    std::vector<OperationPtr> ops;
    {
      GroupOfCalls group(c);
      ops = {sum(c, a), sum(c, b)};
    }
    for (const auto& op : ops) {
      const Status s = op->wait();
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().message().find("enough"), std::string::npos) << s.error().message();
    }
    c.group_start();
    left.push_back(sum(c, unsaid));
  });
  ASSERT_EQ(left.size(), 1u);
  EXPECT_FALSE(left[0]->done());  // its group has never ended
  EXPECT_FALSE(left[0]->wait().ok());
}

// Neither the calls that another thread makes meanwhile, nor those of its own group.
TEST_P(CallGroups, AreOfTheThreadThatOpensThem) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Floats a(3, 1), b(3, 1), d(3, 1);
    c.group_start();
    auto mine = sum(c, a);
    std::thread([&] {
      must(sum(c, b));  // waits, and so is in no group
      c.group_start();
      auto theirs = sum(c, d);
      EXPECT_FALSE(theirs->done());
      c.group_end();
      must(theirs);
      EXPECT_THROW(c.group_end(), Error);
    }).join();
    EXPECT_FALSE(mine->done());
    c.group_end();
    must(mine);
    for (const Floats& sums : {a, b, d}) expect_all(sums, 2, "sum");
  });
}

// While another thread opens and closes groups, no call is lost.
TEST_P(CallGroups, LoseNoCallOfAnotherThread) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::atomic<bool> enough{false};
    std::thread opens([&] {
      while (!enough) GroupOfCalls group(c);
    });
    float x = 1;
    for (int i = 0; i < 2000; ++i) {
      x = 1;
      must(c.all_reduce(&x, 1, DataType::float32, ReduceOp::sum));
      if (x != 2) break;
    }
    EXPECT_EQ(x, 2);
    enough = true;
    opens.join();
  });
}

// A refused call's callback throws: all others are launched, and the group ends with what it threw.
TEST_P(CallGroups, LaunchTheOthersWhateverACallbackThrows) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    Floats a(3, 1), b(5, 1);
    CallOptions impossible;
    impossible.tolerance = 2;  // found when it is planned
    c.group_start();
    auto refused = sum(c, b, impossible);
    refused->on_done([](const Error*) { throw std::runtime_error("no, thanks"); });
    auto other = sum(c, a);
    EXPECT_NO_THROW(c.group_end());
    (void)other->wait();
    EXPECT_TRUE(other->done());
    EXPECT_FALSE(refused->wait().ok());
    const auto until = patiently();
    while (c.health() && !until.passed()) std::this_thread::yield();
    const Status s = c.health();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message().find("no, thanks"), std::string::npos) << s.error().message();
  });
}

// Sums whose factors are gathered first, which begin where they are started.
TEST_P(CallGroups, ArePassedByPersistentCalls) {
  run_ranks(2, GetParam(), [&](Communicator& c) {
    std::vector<uint16_t> ones = {0x3f80, 0x3f80};  // 1 in bfloat16
    CallOptions how;
    how.persistent = true;
    how.factor = c.rank() == 0 ? 2 : 3;
    c.group_start();
    auto op = c.all_reduce(ones.data(), 2, DataType::bfloat16, ReduceOp::premul_sum, how);
    Floats a(3, 1);
    auto grouped = sum(c, a);
    must(op->start());
    must(op);
    EXPECT_EQ(ones[1], 0x40a0);  // 5
    c.group_end();
    must(grouped);
    must(op->start());
    must(op);
    EXPECT_EQ(ones[0], 0x41c8);  // 25
    expect_all(a, 2, "grouped");
  });
}

}  // namespace
}  // namespace ringwood::testing

// Ranks of several hosts that do not call the same, or not all: as on one host every rank hears who
// called what, or who is missing, and no buffer is written. Large calls agree by the hosts' leaders
// (plan/agreement.h), small ones in one round and those with sizes of pairs pair by pair, so that
// the ranks wait for other peers than those that tell them; and by leaders small data moves while
// they agree.
#include <atomic>
#include <cstring>
#include <latch>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/inputs.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

constexpr size_t kLarge = 100'000;

struct Hosts {
  const char* name;
  std::string host_of_ranks;  // a letter for each rank
};
const Hosts kHosts[] = {{"by_host", "aabbbc"}, {"in_turn", "abababa"}};
const Hosts kAlike = {"alike", "abcabc"};
// By the digits of their numbers, or, where cores are few, by the first.
const Hosts kMany = {"many", std::string(20, 'a')};

struct Call {
  const char* name;
  const char* text;
  std::function<OperationPtr(Communicator&, std::vector<float>&)> call;
};

OperationPtr all_to_all_of_pairs(Communicator& c, std::vector<float>& x) {
  std::vector<ConstBlock> give;
  std::vector<Block> take;
  for (int p = 0; p < c.size(); ++p) {
    give.push_back({x.data(), static_cast<size_t>(1 + c.rank() + p)});
    take.push_back(
        {&x[static_cast<size_t>(1000 * (p + 1))], static_cast<size_t>(1 + c.rank() + p)});
  }
  return c.all_to_all(give, take, DataType::float32);
}

const Call kUsual = {"usual", "all_reduce float32 x 100000, sum", [](auto& c, auto& x) {
                       return c.all_reduce(x.data(), kLarge, DataType::float32, ReduceOp::sum);
                     }};
// Ranks receive and add while they agree. Blocks of `count`; the result begins at kResult.
constexpr size_t kResult = 50'000;
OperationPtr by_leaders(Collective collective, Communicator& c, std::vector<float>& x,
                        size_t count) {
  constexpr DataType type = DataType::float32;
  CallOptions call;
  call.algorithm = "hierarchical_leaders";
  float *const in = x.data(), *const out = in + kResult;
  switch (collective) {
    case Collective::all_gather: return c.all_gather(in, out, count, type, call);
    case Collective::reduce_scatter:
      return c.reduce_scatter(in, out, count, type, ReduceOp::sum, call);
    case Collective::all_to_all: return c.all_to_all(in, out, count, type, call);
    default: return c.all_reduce(in, count, type, ReduceOp::sum, call);
  }
}
Call early(Collective collective, size_t count, const char* text) {
  return {to_string(collective), text,
          [=](auto& c, auto& x) { return by_leaders(collective, c, x, count); }};
}
const Call kByDigits = {"digits", "all_reduce float32 x 1000, sum", [](auto& c, auto& x) {
                          CallOptions call;
                          call.algorithm = "recursive_multiplying";
                          return c.all_reduce(x.data(), 1000, DataType::float32, ReduceOp::sum,
                                              call);
                        }};
const Call kEarly[] = {
    early(Collective::all_reduce, 1000, "all_reduce float32 x 1000, sum"),
    early(Collective::all_gather, 1000, "all_gather float32 x 1000"),
    early(Collective::reduce_scatter, 1000, "reduce_scatter float32 x 1000, sum"),
    early(Collective::all_to_all, 1000, "all_to_all float32 x 1000"),
};
const Call kOdd[] = {
    {"size", "all_reduce float32 x 100001, sum",
     [](auto& c, auto& x) {
       return c.all_reduce(x.data(), kLarge + 1, DataType::float32, ReduceOp::sum);
     }},
    {"one_round", "all_reduce float32 x 4, sum",
     [](auto& c, auto& x) { return c.all_reduce(x.data(), 4, DataType::float32, ReduceOp::sum); }},
    {"rooted", "broadcast float32 x 100000, root 1",
     [](auto& c, auto& x) { return c.broadcast(x.data(), kLarge, DataType::float32, 1); }},
    {"pairs", "all_to_all", all_to_all_of_pairs},
    {"barrier", "barrier", [](auto& c, auto&) { return c.barrier(); }},
};

// Whose messages have another size than the others expect.
const Call kOneMore[] = {
    early(Collective::all_reduce, 1001, "all_reduce float32 x 1001, sum"),
    early(Collective::all_gather, 1001, "all_gather float32 x 1001"),
    early(Collective::reduce_scatter, 1001, "reduce_scatter float32 x 1001, sum"),
    early(Collective::all_to_all, 1001, "all_to_all float32 x 1001"),
};

std::function<Options(int)> options_on(const std::string& hosts) {
  return [hosts](int rank) {
    Options o = unhurried_for("mixed", rank);
    o.host_id = hosts[static_cast<size_t>(rank)];
    return o;
  };
}

struct Case {
  Hosts hosts;
  Call usual;
  Call odd;
  int culprit;
};
class MismatchOnHosts : public ::testing::TestWithParam<Case> {};
// The odd rank leads a host, is led, or is alone on its host.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const Hosts& hosts, const Call& usual) {
    for (const Call& odd : kOdd) {
      const int culprits[] = {0, 3, static_cast<int>(hosts.host_of_ranks.size()) - 1};
      all.push_back({hosts, usual, odd, culprits[all.size() % 3]});
    }
  };
  for (const Hosts& hosts : kHosts) add(hosts, kUsual);
  add(kHosts[1], kEarly[0]);
  add(kMany, kByDigits);
  for (size_t i = 0; i < 3; ++i) all.push_back({kMany, kEarly[i], kOneMore[i], 19 * (i > 0)});
  for (const Call& usual : kEarly)
    for (const Call& odd : kEarly) {
      const int culprit = static_cast<int>(all.size()) % 6;
      if (odd.text != usual.text) all.push_back({kAlike, usual, odd, culprit});
    }
  for (size_t i = 0; i < std::size(kEarly); ++i)
    all.push_back({kAlike, kEarly[i], kOneMore[i], static_cast<int>(i)});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Calls, MismatchOnHosts, ::testing::ValuesIn(cases()), [](const auto& at) {
  const Case& c = at.param;
  return fmt::format("{}_among_{}_{}", c.odd.name, c.usual.name, c.hosts.name);
});

TEST_P(MismatchOnHosts, EveryRankHearsWhoCalledWhat) {
  const auto& [hosts, usual, odd, culprit] = GetParam();
  const auto n = static_cast<int>(hosts.host_of_ranks.size());
  std::atomic<int> ready{0};
  run_ranks(n, options_on(hosts.host_of_ranks), [&](Communicator& c) {
    std::vector<float> x(kLarge + 1, static_cast<float>(c.rank() + 1));
    const std::vector<float> before = x;
    start_together(c, ready);
    Status s = (c.rank() == culprit ? odd : usual).call(c, x)->wait();
    if (s.ok()) throw std::runtime_error("no error");
    const std::string text = s.error().message();
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << text;
    EXPECT_NE(text.find(usual.text), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("rank {} called {}", culprit, odd.text)), std::string::npos)
        << text;
    EXPECT_TRUE(x == before);
  });
}

class Missing : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Missing, ::testing::Values(0, 4),
                         [](const auto& info) { return fmt::format("rank_{}", info.param); });

// A leader, and one that is led. The short limit of one rank, which calls last, ends it for all.
TEST_P(Missing, IsNamedByTheTimeout) {
  const int n = 6, hurried = 2;
  std::latch called(n - 2), over(n);
  run_ranks(n, options_on("aaabbb"), [&](Communicator& c) {
    must(c.barrier());
    std::vector<float> x(kLarge, 1);
    if (c.rank() != GetParam()) {
      CallOptions call;
      if (c.rank() == hurried) {
        called.wait();
        call.timeout = std::chrono::milliseconds(300);
      }
      auto op = c.all_reduce(x.data(), kLarge, DataType::float32, ReduceOp::sum, call);
      if (c.rank() != hurried) called.count_down();
      Status s = op->wait();
      const std::string text = s.ok() ? "no error" : s.error().message();
      EXPECT_TRUE(!s.ok() && s.error().code == ErrorCode::timeout) << text;
      EXPECT_NE(text.find(fmt::format("missing: rank {} ", GetParam())), std::string::npos) << text;
      EXPECT_TRUE(x == std::vector<float>(kLarge, 1));
    }
    over.arrive_and_wait();
  });
}

// Not rank 0: with it the group's errors end.
TEST(OnHosts, ARankThatHasLeftIsNamed) {
  for (const int gone : {1, 3})
    run_ranks(6, options_on("aaabbb"), [&](Communicator& c) {
      must(c.barrier());
      if (c.rank() == gone) return;
      std::vector<float> x(kLarge, 1);
      Status s = c.all_reduce(x.data(), kLarge, DataType::float32, ReduceOp::sum)->wait();
      if (s.ok()) throw std::runtime_error("no error");
      const std::string text = s.error().message();
      EXPECT_NE(text.find(fmt::format("rank {} left the group", gone)), std::string::npos) << text;
      EXPECT_TRUE(x == std::vector<float>(kLarge, 1));
    });
}

TEST_P(Missing, IsWaitedForWhereItIsLate) {
  run_ranks(6, options_on("aaabbb"), [&](Communicator& c) {
    for (int again = 0; again < 3; ++again) {
      if (c.rank() == GetParam()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::vector<float> x(kLarge, 1);
      must(c.all_reduce(x.data(), kLarge, DataType::float32, ReduceOp::sum));
      EXPECT_TRUE(x == std::vector<float>(kLarge, 6));
      must(c.barrier());
    }
  });
}

// What each rank has at i of its input: small numbers, so that sums are exact.
float input(int round, int rank, size_t i) {
  return static_cast<float>(round + 7 * rank + static_cast<int>(i % 11));
}
// What by_leaders() leaves at i of the result of `rank`.
float result(Collective collective, int round, int rank, int n, size_t count, size_t i) {
  const auto block = static_cast<int>(i / count);
  const size_t at = i % count, mine = static_cast<size_t>(rank) * count + at;
  if (collective == Collective::all_gather) return input(round, block, at);
  if (collective == Collective::all_to_all) return input(round, block, mine);
  float sum = 0;
  for (int r = 0; r < n; ++r)
    sum += input(round, r, collective == Collective::reduce_scatter ? mine : i);
  return sum;
}
// One operation after the other, without a word between: messages of the next may come while this
// one is under way.
void expect_results(Communicator& c, Collective collective, int round) {
  const int n = c.size();
  const bool in_place = collective == Collective::all_reduce;
  const auto count = static_cast<size_t>(1 + round * 97 % 1200);
  const bool blocks = collective == Collective::all_gather || collective == Collective::all_to_all;
  std::vector<float> x(2 * kResult);
  for (size_t i = 0; i < count * static_cast<size_t>(n); ++i) x[i] = input(round, c.rank(), i);
  must(by_leaders(collective, c, x, count));
  const float* const got = x.data() + (in_place ? 0 : kResult);
  for (size_t i = 0; i < count * static_cast<size_t>(blocks ? n : 1); ++i)
    if (got[i] != result(collective, round, c.rank(), n, count, i))
      throw std::runtime_error(fmt::format("{} {}: element {} is {}, not {}", to_string(collective),
                                           round, i, got[i],
                                           result(collective, round, c.rank(), n, count, i)));
}

TEST_P(Missing, IsWaitedForWhereDataMovesMeanwhile) {
  for (const char* hosts : {"aaabbb", "abcacb", "abcdabcd"})
    run_ranks(static_cast<int>(std::strlen(hosts)), options_on(hosts), [&](Communicator& c) {
      for (int round = 0; round < (kSlow ? 10 : 40); ++round)
        for (const Collective collective : {Collective::all_reduce, Collective::all_gather,
                                            Collective::reduce_scatter, Collective::all_to_all}) {
          if (c.rank() == GetParam() && round % 20 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          expect_results(c, collective, round);
        }
    });
}

}  // namespace
}  // namespace ringwood::testing

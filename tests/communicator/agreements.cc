// Ranks of several hosts that do not call the same, or not all: as on one host every rank hears who
// called what, or who is missing, and no buffer is written. Large calls agree by the hosts' leaders
// (plan/agreement.h), small ones in one round and those with sizes of pairs pair by pair, so that
// the ranks wait for other peers than those that tell them.
#include <atomic>
#include <latch>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

constexpr size_t kLarge = 100'000;

struct Hosts {
  const char* name;
  std::string host_of_ranks;  // a letter for each rank
};
const Hosts kHosts[] = {{"by_host", "aabbbc"}, {"in_turn", "abababa"}};

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
// Its leaders receive and add while the ranks agree.
OperationPtr by_leaders(Communicator& c, float* x, size_t count) {
  CallOptions call;
  call.algorithm = "hierarchical_leaders";
  return c.all_reduce(x, count, DataType::float32, ReduceOp::sum, call);
}
const Call kEarly = {"early", "all_reduce float32 x 1000, sum",
                     [](auto& c, auto& x) { return by_leaders(c, x.data(), 1000); }};
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

std::function<Options(int)> options_on(const std::string& hosts) {
  return [hosts](int rank) {
    Options o = options_for("mixed", rank);
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
  add(kHosts[1], kEarly);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Calls, MismatchOnHosts, ::testing::ValuesIn(cases()), [](const auto& at) {
  const Case& c = at.param;
  return fmt::format("{}_among_{}_{}", c.odd.name, c.usual.name, c.hosts.name);
});

TEST_P(MismatchOnHosts, EveryRankHearsWhoCalledWhat) {
  const auto& [hosts, usual, odd, culprit] = GetParam();
  const auto n = static_cast<int>(hosts.host_of_ranks.size());
  std::latch ready(n);
  run_ranks(n, options_on(hosts.host_of_ranks), [&](Communicator& c) {
    std::vector<float> x(kLarge + 1, static_cast<float>(c.rank() + 1));
    const std::vector<float> before = x;
    must(c.barrier());
    ready.arrive_and_wait();  // the group's error must not overtake any rank's end of it
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

// A leader, and one that is led.
TEST_P(Missing, IsNamedByTheTimeout) {
  const int n = 6;
  std::latch over(n);
  run_ranks(n, options_on("aaabbb"), [&](Communicator& c) {
    must(c.barrier());
    std::vector<float> x(kLarge, 1);
    if (c.rank() != GetParam()) {
      CallOptions call;
      call.timeout = std::chrono::milliseconds(300);
      Status s = c.all_reduce(x.data(), kLarge, DataType::float32, ReduceOp::sum, call)->wait();
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
      for (int k = 0; k < 20; ++k) {
        const auto value = [&](int rank) { return static_cast<float>(100 * again + 3 * k + rank); };
        const auto count = static_cast<size_t>(1 + 97 * k);
        x.assign(count, value(c.rank()));
        must(by_leaders(c, x.data(), count));
        EXPECT_TRUE(x == std::vector<float>(count, 6 * value(0) + 15));
      }
    }
  });
}

}  // namespace
}  // namespace ringwood::testing

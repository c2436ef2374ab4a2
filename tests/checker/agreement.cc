// The agreement by messages, on any placement: every rank hears of all others, by few messages, and
// where one of them is missing the checker says so.
#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/agreement.h"
#include "tests/support/plan_groups.h"

namespace ringwood::testing {
namespace {

// How the ranks of hosts of `sizes` are numbered.
enum class Order { by_host, in_turn, any };

Places placed(std::vector<int> sizes, Order order, std::mt19937& random) {
  std::vector<int> of_ranks;
  for (bool more = true; more;) {
    more = false;
    for (size_t h = 0; h < sizes.size(); ++h)
      while (sizes[h] > 0) {
        of_ranks.push_back(static_cast<int>(h));
        more = --sizes[h] > 0 || more;
        if (order == Order::in_turn) break;
      }
  }
  if (order == Order::any) std::shuffle(of_ranks.begin(), of_ranks.end(), random);
  std::map<int, int> numbers;  // in the order of the hosts' first ranks
  Places places;
  for (const int h : of_ranks)
    places.host.push_back(numbers.try_emplace(h, static_cast<int>(numbers.size())).first->second);
  return places;
}

PlanGroup barrier_on(const Places& places, bool crowded = false) {
  const auto n = static_cast<int>(places.host.size());
  const AlgorithmRow& row = *find_algorithm(Collective::barrier, "dissemination");
  return plan_group(build_all(row, places.where(0, n, 0)),
                    plan_args(Collective::barrier, DataType::uint8, ReduceOp::sum, 0, 0), row.name,
                    {.apart = false, .crowded = crowded}, places);
}

struct Counts {
  std::vector<int> out, in;  // messages across, by host
  std::vector<int> inside;   // by host
  int stages = 0;            // of the rank that has most
};
Counts counts_of(const PlanGroup& group) {
  const std::vector<int>& host = group.places.host;
  const auto hosts = static_cast<size_t>(*std::ranges::max_element(host)) + 1;
  Counts c{std::vector<int>(hosts), std::vector<int>(hosts), std::vector<int>(hosts), 0};
  for (size_t r = 0; r < group.plans.size(); ++r)
    for (const Plan::Exchange& e : group.plans[r]->agreement) {
      c.stages = std::max(c.stages, e.stage + 1);
      if (e.to < 0) continue;
      const auto from = static_cast<size_t>(host[r]);
      const auto to = static_cast<size_t>(
          host[static_cast<size_t>(group.plans[r]->peers[static_cast<size_t>(e.to)].peer)]);
      if (from == to) {
        ++c.inside[from];
      } else {
        ++c.out[from];
        ++c.in[to];
      }
    }
  return c;
}

void expect_sound_and_small(const Places& places, bool crowded = false) {
  const PlanGroup group = barrier_on(places, crowded);
  const PlanCheck found = group.check();
  ASSERT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
  const auto hosts = *std::ranges::max_element(places.host) + 1;
  const auto n = static_cast<int>(places.host.size());
  const GroupSize size = group_size(places.host, n, crowded ? 1 : n);
  if (!agreement_way(size, false).by_hosts) return;
  const Counts counts = counts_of(group);
  int largest = 0;
  for (int h = 0; h < hosts; ++h) {
    const auto at = static_cast<size_t>(h);
    const auto ranks = static_cast<int>(std::ranges::count(places.host, h));
    largest = std::max(largest, ranks);
    EXPECT_EQ(counts.out[at], hosts > 1 ? dissemination_rounds(hosts) : 0);
    EXPECT_EQ(counts.in[at], hosts > 1 ? dissemination_rounds(hosts) : 0);
    EXPECT_EQ(counts.inside[at], 2 * (ranks - 1));
  }
  const int inside = levels_below_leader(largest, crowded);
  EXPECT_LE(counts.stages, (hosts > 1 ? dissemination_rounds(hosts) : 0) + 2 + inside);
}

TEST(Agreement, ByHostsIsSoundOnAnyPlacement) {
  std::mt19937 random(7);
  for (int hosts = 1; hosts <= 33; ++hosts)
    for (const Order order : {Order::by_host, Order::in_turn, Order::any}) {
      const int k = 1 + static_cast<int>(random() % 8);
      expect_sound_and_small(placed(std::vector<int>(hosts, k), order, random));
      std::vector<int> sizes;
      for (int h = 0; h < hosts; ++h) sizes.push_back(1 + static_cast<int>(random() % 8));
      expect_sound_and_small(placed(sizes, order, random));
      if (HasFatalFailure()) FAIL() << hosts << " hosts";
    }
  // Trees of several levels.
  for (const auto& sizes : {std::vector<int>{9, 10}, {74, 1}, {1, 33, 17}})
    expect_sound_and_small(placed(sizes, Order::any, random));
}

TEST(Agreement, OfCrowdedHostsHasTwoRoundsInside) {
  std::mt19937 random(11);
  for (const auto& sizes : {std::vector<int>{40}, {4}, {33, 1, 17}, {12, 12}, {64, 64, 64}})
    for (const Order order : {Order::by_host, Order::in_turn, Order::any}) {
      const Places places = placed(sizes, order, random);
      expect_sound_and_small(places, true);
      const int across =
          sizes.size() > 1 ? dissemination_rounds(static_cast<int>(sizes.size())) : 0;
      EXPECT_EQ(counts_of(barrier_on(places, true)).stages, 2 + across);
    }
}

// One host by its digits, ranks without memory in common by those of base 2.
TEST(Agreement, ByDigitsIsSoundForAnyNumberOfRanks) {
  std::mt19937 random(12);
  for (int n = 2; n <= 70; ++n) {
    const Places one = placed({n}, Order::by_host, random);
    const Places apart = placed(std::vector<int>(n, 1), Order::by_host, random);
    for (const Places& places : {one, apart}) {
      const PlanGroup group = barrier_on(places);
      const PlanCheck found = group.check();
      ASSERT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
    }
    const auto factors = agreement_factors(n, true);
    EXPECT_EQ(counts_of(barrier_on(one)).stages,
              factors.empty() ? dissemination_rounds(n) : std::ssize(factors));
    EXPECT_EQ(counts_of(barrier_on(apart)).stages, dissemination_rounds(n));
  }
  EXPECT_EQ(agreement_factors(64, true), (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(agreement_factors(56, true), (std::vector<int>{4, 2, 7}));
  EXPECT_EQ(agreement_factors(22, true), std::vector<int>{}) << "11 at once";
  EXPECT_EQ(agreement_factors(16, false), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(agreement_factors(24, false), std::vector<int>{});
}

// The message of rank r's exchange `at`, left out at both ends.
void drop_message(PlanGroup& group, size_t r, size_t at) {
  const auto leave_out = [](Plan& plan, bool sent, int peer, int nth) {
    for (auto e = plan.agreement.begin(); e != plan.agreement.end(); ++e) {
      int& end = sent ? e->to : e->from;
      if (end < 0 || plan.peers[static_cast<size_t>(end)].peer != peer) continue;
      if ((sent ? e->nth_to : e->nth_from) != nth) continue;
      PeerQueue& queue = plan.peers[static_cast<size_t>(end)];
      --(sent ? queue.preambles_out : queue.preambles_in);
      end = -1;
      if (e->to < 0 && e->from < 0) plan.agreement.erase(e);
      return true;
    }
    return false;
  };
  const Plan::Exchange e = group.plans[r]->agreement[at];
  const int peer = group.plans[r]->peers[static_cast<size_t>(e.to)].peer;
  ASSERT_TRUE(
      leave_out(*group.plans[static_cast<size_t>(peer)], false, static_cast<int>(r), e.nth_to));
  ASSERT_TRUE(leave_out(*group.plans[r], true, peer, e.nth_to));
}

// In a dissemination of 2^k no message may be missing, and none inside a host, nor one by digits.
TEST(Agreement, AMissingMessageIsFound) {
  std::mt19937 random(8);
  int dropped = 0;
  for (const auto& [sizes, crowded] : {std::pair{std::vector<int>{2, 2}, false},
                                       {{3, 1, 2, 4}, false},
                                       {{1, 8, 1, 1, 1, 2, 1, 1}, false},
                                       {{12, 1}, false},
                                       {{24}, false},
                                       {{20}, true},
                                       {{10, 7}, true},
                                       {std::vector<int>(8, 1), false}})
    for (const Order order : {Order::by_host, Order::in_turn}) {
      const PlanGroup group = barrier_on(placed(sizes, order, random), crowded);
      for (size_t r = 0; r < group.plans.size(); ++r)
        for (size_t at = 0; at < group.plans[r]->agreement.size(); ++at) {
          if (group.plans[r]->agreement[at].to < 0) continue;
          PlanGroup mutant = group;
          for (auto& plan : mutant.plans) plan = std::make_shared<Plan>(*plan);
          drop_message(mutant, r, at);
          ++dropped;
          const PlanCheck found = mutant.check();
          EXPECT_EQ(found.result, PlanCheck::Result::faulty) << "rank " << r << ", " << at;
          EXPECT_NE(found.words.find("before it has heard of"), std::string::npos) << found.words;
        }
    }
  EXPECT_GT(dropped, 100);
}

// What 16 hosts of 8, and 128 of them, save: messages across of a host, out and in.
TEST(Agreement, OfManyRanksHasFewMessagesAcross) {
  std::mt19937 random(9);
  for (const int hosts : {16, 128}) {
    const Places places = placed(std::vector<int>(hosts, 8), Order::by_host, random);
    Counts before{std::vector<int>(hosts), {}, {}, 0};
    const int n = 8 * hosts;
    for (int r = 0; r < n; ++r)
      for (int distance = 1; distance < n; distance *= 2)
        before.out[r / 8] += places.host[static_cast<size_t>((r + distance) % n)] != r / 8;
    const Counts now = counts_of(barrier_on(places));
    EXPECT_EQ(now.out[1] + now.in[1], 2 * (hosts == 16 ? 4 : 7));
    EXPECT_EQ(2 * before.out[1], hosts == 16 ? 2 * 39 : 2 * 63);
    EXPECT_EQ(now.stages, dissemination_rounds(hosts) + 2);
  }
}

// Of every row, where it is small. Leaders hear others before all are heard; a rank that is led
// takes part where it packs what it sends.
TEST(Agreement, SmallDataMovesMeanwhile) {
  std::mt19937 random(10);
  std::map<std::pair<Collective, std::string>, int> early;  // plans
  for (const auto& sizes :
       {std::vector<int>{2, 2}, {4, 4, 4, 4}, {3, 1, 2, 1, 1, 5, 2, 1}, {2, 3, 2}, {3, 3, 3}})
    for (const Order order : {Order::by_host, Order::in_turn})
      for (const AlgorithmRow& row : algorithm_table()) {
        const Places places = placed(sizes, order, random);
        const auto n = static_cast<int>(places.host.size());
        if (!row.accepts(places.where(0, n, 0))) continue;
        for (const size_t count : {1, 501, 40'000}) {
          const PlanGroup group =
              plan_group(build_all(row, places.where(0, n, 0)),
                         plan_args(row.collective, DataType::float32, ReduceOp::sum, count, 0),
                         row.name, {.apart = false}, places);
          const PlanCheck found = group.check();
          ASSERT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
          const auto plans =
              std::ranges::count_if(group.plans, [](auto& p) { return is_early(*p); });
          EXPECT_TRUE(plans == 0 || count < 40'000) << group.name;
          if (plans > 0) early[{row.collective, row.name}] += static_cast<int>(plans);
        }
      }
  // Numbered in two ways, of two sizes.
  const int leaders = 2 + 4 + 8 + 3 + 3, ranks = 4 + 16 + 16 + 7 + 9, alike = 4 + 16 + 9;
  const auto by_leaders = [&](Collective c) { return early[{c, "hierarchical_leaders"}]; };
  EXPECT_EQ(by_leaders(Collective::all_reduce), 2 * 2 * leaders);
  EXPECT_EQ(by_leaders(Collective::all_gather), 2 * 2 * leaders);
  EXPECT_EQ(by_leaders(Collective::reduce_scatter), 2 * 2 * ranks);
  EXPECT_EQ(by_leaders(Collective::all_to_all), 2 * 2 * alike);
}

// Of one host, with cores for all and with few, and of as many hosts.
TEST(Agreement, OfManyRanksIsSoundWithEveryRow) {
  std::mt19937 random(14);
  for (const int n : {18, 24, 32})
    for (const AlgorithmRow& row : algorithm_table()) {
      const Places one = placed({n}, Order::by_host, random);
      const Places apart = placed(std::vector<int>(n, 1), Order::by_host, random);
      for (const auto& [places, crowded] : {std::pair{one, false}, {one, true}, {apart, false}}) {
        if (!row.accepts(places.where(0, n, 0))) continue;
        const PlanGroup group =
            plan_group(build_all(row, places.where(0, n, 0)),
                       plan_args(row.collective, DataType::float32, ReduceOp::avg, 77, 0), row.name,
                       {.apart = false, .crowded = crowded}, places);
        const PlanCheck found = group.check();
        EXPECT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
      }
    }
}

// Of rows whose data has the way of the agreement, as many ranks as are early.
TEST(Agreement, SmallDataMovesMeanwhileOnOneHostAndBetweenSingleRanks) {
  std::mt19937 random(13);
  const auto early = [&](const std::string& name, const std::vector<int>& sizes, bool crowded) {
    const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, name);
    const Places places = placed(sizes, Order::by_host, random);
    const auto n = static_cast<int>(places.host.size());
    const PlanGroup group =
        plan_group(build_all(row, places.where(0, n, 0)),
                   plan_args(Collective::all_reduce, DataType::float32, ReduceOp::sum, 501, 0),
                   row.name, {.apart = false, .crowded = crowded}, places);
    const PlanCheck found = group.check();
    EXPECT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
    return std::ranges::count_if(group.plans, [](auto& p) { return is_early(*p); });
  };
  EXPECT_EQ(early("recursive_multiplying", {24}, false), 24);
  EXPECT_EQ(early("recursive_multiplying", {16}, false), 0) << "which have eager slots";
  EXPECT_EQ(early("recursive_multiplying", {22}, false), 0) << "which agree by dissemination";
  EXPECT_EQ(early("recursive_doubling", {32}, false), 32);
  EXPECT_EQ(early("recursive_doubling", {24}, false), 24) << "4 * 2 * 3";
  EXPECT_EQ(early("recursive_doubling", {22}, false), 0);
  EXPECT_EQ(early("ring", std::vector<int>(4, 1), false), 0) << "half of which hear those before";
  EXPECT_EQ(early("recursive_doubling", std::vector<int>(32, 1), false), 32);
  EXPECT_EQ(early("recursive_doubling", {1, 1}, false), 0) << "one exchange, after which they know";
  EXPECT_EQ(early("recursive_doubling", std::vector<int>(24, 1), false), 0);
  EXPECT_EQ(early("hierarchical_leaders", {24}, true), 1);
}

}  // namespace
}  // namespace ringwood::testing

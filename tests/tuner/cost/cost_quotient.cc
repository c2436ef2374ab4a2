// A schedule on one host in place of many (cost_quotient.h), against all of its ranks.
#include "collectives/tuner/cost/cost_quotient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {
namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all,
                                       Collective::barrier};

SharedPlacement on_hosts(int hosts, int ranks_of_a_host) {
  MachineModel machine;
  machine.cores = 8;
  for (int r = 0; r < hosts * ranks_of_a_host; ++r) machine.hosts.push_back(r / ranks_of_a_host);
  return placement_of(machine, hosts * ranks_of_a_host);
}

std::vector<Schedule> of_ranks(const AlgorithmRow& row, const Placement& on,
                               const std::vector<int>& ranks) {
  std::vector<Schedule> schedules;
  for (const int r : ranks)
    schedules.push_back(after_agreement(row.build(on.where(r)), row.collective));
  return schedules;
}

std::vector<int> all_ranks(int n) {
  std::vector<int> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(r);
  return ranks;
}

std::optional<HostSymmetry> symmetry_of(const AlgorithmRow& row, const SharedPlacement& on) {
  const BuildRank build = [&](int r) { return row.build(on->where(r)); };
  const std::vector<int>& first = on->hosts.ranks[0];
  std::vector<Schedule> schedules;
  for (const int r : first) schedules.push_back(build(r));
  return ringwood::symmetry_of(on, schedules, build);
}

// One of the hosts that share their cores has its part of them.
TEST(CostQuotient, OfHostsThatShareCoresHasItsPart) {
  size_t found = 0;
  MachineModel machine = on_hosts(8, 2)->machine;
  machine.cores = 2;
  machine.net.sharing = 4;
  machine.net.post = 10e-6;
  machine.net.copied = 1e9;
  const SharedPlacement on = placement_of(machine, 16);
  for (const AlgorithmRow& row : algorithm_table()) {
    const auto symmetry = row.accepts(on->where(0)) && moves_data(row.collective)
                              ? symmetry_of(row, on)
                              : std::optional<HostSymmetry>();
    if (!symmetry) continue;
    ++found;
    Load load{row.collective, 4096};
    const auto plans = [&](const std::vector<int>& ranks) {
      return plans_of(of_ranks(row, *on, ranks), 1, load, machine);
    };
    const double whole =
        predict(model_of(plans(all_ranks(16)), load, machine), load, machine).seconds;
    const double part =
        predict(model_of(plans(on->hosts.ranks[0]), load, machine, &*symmetry), load, machine)
            .seconds;
    EXPECT_NEAR(part / whole, 1, 0.02) << to_string(row.collective) << " " << row.name;
  }
  EXPECT_GE(found, 10u);
}

TEST(HostSymmetry, CountsDigitByDigit) {
  const SharedPlacement on = on_hosts(12, 1);
  const HostSymmetry rotation(on, {12}), mixed(on, {2, 2, 3});
  EXPECT_EQ(rotation.relation(11, 1), 2);
  EXPECT_EQ(rotation.relation(1, 11), 10);
  EXPECT_EQ(mixed.relation(3, 0), 3);  // both low digits are turned
  EXPECT_EQ(mixed.relation(8, 0), 4);  // 2 -> 0 of 3 is one step
  EXPECT_EQ(mixed.relation(0, 8), 8);
  for (const HostSymmetry& s : symmetries_of(on))
    for (int a = 0; a < 12; ++a) {
      std::set<int> all;
      for (int b = 0; b < 12; ++b) all.insert(s.relation(a, b));
      EXPECT_EQ(all.size(), 12u);
      EXPECT_EQ(s.relation(a, a), 0);
    }
}

// Samples decide, so all ranks are compared here.
TEST(HostSymmetry, WhatIsFoundIsTrueOfAllRanks) {
  std::set<std::string> found;
  for (const auto& [hosts, k] :
       {std::pair{2, 4}, {3, 2}, {5, 3}, {8, 4}, {12, 2}, {16, 1}, {16, 8}, {24, 1}, {27, 2}}) {
    const SharedPlacement on = on_hosts(hosts, k);
    for (const AlgorithmRow& row : algorithm_table()) {
      if (!row.accepts(on->where(0))) continue;
      const auto symmetry = symmetry_of(row, on);
      if (!symmetry) continue;
      found.insert(std::string(to_string(row.collective)) + " " + row.name);
      for (int r = 0; r < on->n; ++r) {
        const int j = on->hosts.index[r];
        EXPECT_TRUE(
            alike(row.build(on->where(on->hosts.ranks[0][j])), row.build(on->where(r)), *symmetry))
            << to_string(row.collective) << " " << row.name << ", " << hosts << " hosts of " << k
            << ", rank " << r;
      }
    }
  }
  for (const char* row :
       {"all_reduce ring", "all_reduce direct", "all_reduce recursive_doubling",
        "all_reduce halving_doubling", "all_reduce hierarchical", "all_gather ring",
        "all_gather bruck", "reduce_scatter pat", "all_to_all pairwise", "barrier dissemination"})
    EXPECT_TRUE(found.contains(row)) << row;
  EXPECT_FALSE(found.contains("all_reduce double_tree"));
}

// The numbers of the ranks do not matter, where a schedule goes by hosts.
TEST(HostSymmetry, IsFoundHoweverRanksAreNumbered) {
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "hierarchical");
  const int hosts = 8, k = 4;
  std::vector<int> order = all_ranks(hosts * k);
  double first = 0;
  for (uint32_t seed : {0u, 1u, 2u, 3u}) {
    MachineModel machine;
    machine.cores = 8;
    uint32_t x = seed;
    for (size_t i = order.size(); i > 1 && seed > 0; --i)
      std::swap(order[i - 1], order[(x = x * 1664525u + 1013904223u) / 65536 % i]);
    std::vector<int> host_of;
    for (const int at : order) host_of.push_back(at / k);
    std::vector<int> numbers(hosts, -1);
    int next = 0;
    for (const int h : host_of) {
      if (numbers[h] < 0) numbers[h] = next++;
      machine.hosts.push_back(numbers[h]);
    }
    const SharedPlacement on = placement_of(machine, hosts * k);
    const auto symmetry = symmetry_of(row, on);
    ASSERT_TRUE(symmetry) << seed;
    const Load load{Collective::all_reduce, 1 << 20};
    const auto plans = plans_of(of_ranks(row, *on, on->hosts.ranks[0]), 1, load, on->machine);
    const double seconds =
        predict(model_of(plans, load, on->machine, &*symmetry), load, on->machine).seconds;
    if (seed == 0) first = seconds;
    EXPECT_NEAR(seconds, first, 1e-9 * first);
  }
}

// What happens at the same time does so in the order in which it began, so equal hosts do the same
// in the whole simulation, but for rounding errors that decide which of two is first.
TEST(CostQuotient, PredictsWhatTheWholeDoes) {
  std::vector<double> offs;
  for (const auto& [hosts, k] :
       {std::pair{4, 4}, {3, 4}, {8, 4}, {12, 4}, {2, 8}, {4, 8}, {8, 8}}) {
    const SharedPlacement on = on_hosts(hosts, k);
    for (const Collective collective : kCollectives) {
      for (const AlgorithmRow& row : algorithm_table()) {
        if (row.collective != collective || !row.accepts(on->where(0))) continue;
        const auto symmetry = symmetry_of(row, on);
        if (!symmetry) continue;
        const auto first = of_ranks(row, *on, on->hosts.ranks[0]);
        const auto whole = of_ranks(row, *on, all_ranks(on->n));
        for (const size_t bytes :
             {size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, size_t{64} << 20}) {
          Load load{collective, moves_data(collective) ? bytes : 0};
          if (required_chunks(collective, on->n) > 0)
            load.bytes = std::max<size_t>(4, bytes / on->n);
          if (!moves_data(collective) && bytes > 1 << 10) continue;
          load.agreement = true;
          // Long ones with many messages at once: this is a test of the suite.
          load.most_work = 100000;
          const Prediction all = predict(whole, load, on->machine);
          if (!all.simulated) continue;
          const Prediction one = predict(
              model_of(plans_of(first, 1, load, on->machine), load, on->machine, &*symmetry), load,
              on->machine);
          ASSERT_TRUE(one.simulated);
          const double off = std::abs(one.seconds / all.seconds - 1);
          offs.push_back(off);
          EXPECT_LE(off, 0.01) << to_string(collective) << " " << row.name << ", " << hosts
                               << " hosts of " << k << ", " << bytes << " bytes: " << one.seconds
                               << ", whole " << all.seconds;
        }
      }
    }
  }
  const auto within = [&](double part) {
    return std::count_if(offs.begin(), offs.end(), [&](double off) { return off <= part; });
  };
  const auto cases = static_cast<int64_t>(offs.size());
  fmt::print("{} cases: {} within 0.01 %, {} within 1 %, {} within 5 %, worst {:.1f} %\n", cases,
             within(1e-4), within(0.01), within(0.05),
             *std::max_element(offs.begin(), offs.end()) * 100);
  EXPECT_GT(cases, 400);
  EXPECT_GE(within(1e-4), cases * 94 / 100);
}

}  // namespace
}  // namespace ringwood

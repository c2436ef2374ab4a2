// What the agreement of a group on several hosts is predicted to take.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/plan/plan.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {
namespace {

constexpr double kAlpha = 20e-6;  // of the network

std::vector<Schedule> barrier(int n) {
  return build_all(*find_algorithm(Collective::barrier, "dissemination"), {0, n, 0});
}

// Only they cost anything.
MachineModel with_latencies(std::vector<int> hosts, double inside) {
  MachineModel f;
  f.hosts = std::move(hosts);
  f.cores = 64;
  f.call = f.post = f.look = f.yield = f.net.post = 0;
  f.latency = inside;
  f.net.latency = kAlpha;
  return f;
}

// Carries out the exchanges of all ranks' plans where only latencies cost anything: when the last
// rank has heard of all.
double end_of_exchanges(const std::vector<Plan>& plans, const MachineModel& machine) {
  struct Rank {
    double time = 0;
    size_t next = 0;                                   // exchange
    bool posted = false;                               // those of its stage
    std::map<int, std::vector<double>> arrivals = {};  // by sender
  };
  std::vector<Rank> ranks(plans.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto& list = plans[r].agreement;
      const auto peer = [&](int at) { return plans[r].peers[static_cast<size_t>(at)].peer; };
      Rank& rank = ranks[r];
      size_t end = rank.next;
      while (end < list.size() && list[end].stage == list[rank.next].stage) ++end;
      double last = rank.time;
      bool heard = rank.next < end;
      for (size_t i = rank.next; i < end; ++i) {
        const Plan::Exchange& e = list[i];
        if (e.to >= 0 && !rank.posted) {
          const auto to = static_cast<size_t>(peer(e.to));
          const bool far = machine.hosts[r] != machine.hosts[to];
          ranks[to].arrivals[static_cast<int>(r)].push_back(
              rank.time + (far ? machine.net.latency : machine.latency));
        }
        if (e.from < 0) continue;
        const auto& from = rank.arrivals[peer(e.from)];
        heard = heard && from.size() > static_cast<size_t>(e.nth_from);
        if (heard) last = std::max(last, from[static_cast<size_t>(e.nth_from)]);
      }
      moved = moved || heard || (!rank.posted && rank.next < end);
      rank.posted = !heard;
      if (!heard) continue;
      rank.time = last;
      rank.next = end;
    }
  }
  double all = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks[r].next, plans[r].agreement.size()) << "rank " << r;
    all = std::max(all, ranks[r].time);
  }
  return all;
}

TEST(CostOfAgreement, IsWhatItsExchangesTake) {
  Load load{Collective::barrier, 0};
  load.agreement = true;
  for (const int hosts : {2, 3, 8, 13})
    for (const int on_host : {1, 2, 8, 9, 11}) {
      std::vector<int> host_of(static_cast<size_t>(hosts * on_host));
      for (size_t r = 0; r < host_of.size(); ++r) host_of[r] = static_cast<int>(r) / on_host;
      const MachineModel f = with_latencies(host_of, kAlpha / 10);
      const auto all = barrier(hosts * on_host);
      EXPECT_NEAR(predict(all, load, f).seconds, end_of_exchanges(plans_of(all, 1, load, f), f),
                  1e-9)
          << hosts << " hosts of " << on_host;
    }
  // One host, by digits and, with few cores, by its first rank.
  for (const int n : {18, 22, 24, 64})
    for (const int cores : {64, 2}) {
      MachineModel f = with_latencies(std::vector<int>(static_cast<size_t>(n), 0), kAlpha / 10);
      f.cores = cores;
      const auto all = barrier(n);
      EXPECT_NEAR(predict(all, load, f).seconds, end_of_exchanges(plans_of(all, 1, load, f), f),
                  1e-9)
          << n << " ranks on " << cores << " cores";
    }
  // Of siblings, which stand for a larger group of hosts of as many ranks: 2 x 4 for 64 x 4.
  MachineModel f = with_latencies({0, 0, 0, 0, 1, 1, 1, 1}, 0);
  load.of_group = {.ranks = 256, .hosts = 64, .on_host = 4, .cores = f.cores};
  EXPECT_NEAR(predict(barrier(8), load, f).seconds, 6 * kAlpha, 1e-9);
  // Each message takes cores: of a host of four 6 inside, and 6 across, out and in.
  f.post = 1e-6;
  f.net.post = 3e-6;
  const double levels = 2 * (1 + 3) * f.post, across = 6 * (kAlpha + 2 * f.net.post);
  EXPECT_NEAR(predict(barrier(8), load, f).seconds, levels + across, 1e-9);
}

// A barrier is its agreement; its schedule of several rounds still does not go in one.
TEST(CostOfAgreement, IsWhatABarrierIsExplainedToTake) {
  for (const std::vector<int>& hosts : {std::vector{0, 1}, {0, 0, 1, 1}, {0, 0, 1, 1, 2, 2}}) {
    MachineModel machine;
    machine.cores = 2;
    machine.hosts = hosts;
    ModelQuery q;
    q.collective = Collective::barrier;
    q.n = static_cast<int>(hosts.size());
    q.machine = &machine;
    const std::vector<Schedule> all = barrier(q.n);
    Load load{Collective::barrier, 0};
    load.agreement = true;
    load.one_round = std::ranges::all_of(all, fits_one_round);
    const double seconds = predict(all, load, machine).seconds;
    const std::vector<Candidate> told = explain(q, {});
    ASSERT_EQ(told.size(), 1u);
    EXPECT_NEAR(told[0].seconds, seconds, 1e-3 * seconds);
  }
}

// Siblings agree as their group does, however few they are, and however their cores are rounded.
TEST(CostOfAgreement, IsThatOfTheWholeGroup) {
  Load load{Collective::all_reduce, 64};
  load.agreement = true;
  const auto early = [&](const char* row, int n, const GroupSize& group) {
    MachineModel machine = with_latencies(std::vector<int>(static_cast<size_t>(n), 0), kAlpha / 10);
    load.of_group = group;
    const auto all = build_all(*find_algorithm(load.collective, row), {0, n, 0});
    return std::ranges::count_if(plans_of(all, 1, load, machine),
                                 [](const Plan& plan) { return is_early(plan); });
  };
  const GroupSize many{.ranks = 256, .hosts = 1, .on_host = 256, .cores = 256};
  EXPECT_EQ(early("recursive_multiplying", 16, many), 16);
  EXPECT_EQ(early("recursive_multiplying", 16, {}), 0) << "which have slots";
  EXPECT_EQ(early("recursive_multiplying", 4, many), 4) << "of one digit, in place of four";
  EXPECT_EQ(early("hierarchical_leaders", 24, many), 3 + 1 + 2) << "that the first tells by digits";
  const GroupSize crowded{.ranks = 256, .hosts = 1, .on_host = 256, .cores = 64};
  EXPECT_EQ(early("hierarchical_leaders", 24, crowded), 1);
  EXPECT_EQ(early("recursive_multiplying", 24, crowded), 1) << "that tells all";
  const GroupSize not_quite{.ranks = 39, .hosts = 1, .on_host = 39, .cores = 10};
  EXPECT_EQ(early("hierarchical_leaders", 20, not_quite), 0) << "though 20 are, on 5";
  const GroupSize of_a_prime{.ranks = 61, .hosts = 1, .on_host = 61, .cores = 64};
  EXPECT_EQ(early("recursive_multiplying", 24, of_a_prime), 0) << "which agree by dissemination";
}

}  // namespace
}  // namespace ringwood

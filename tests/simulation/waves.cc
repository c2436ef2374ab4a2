// The simulation of all hosts by one against closed forms, and against that of every message.
#include "tools/simulation/waves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "tests/simulation/simulated.h"
#include "tools/simulation/delays.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif
constexpr int kRanksOfAHost = 8;

// Nothing where the row has no symmetry.
std::optional<Outcome> waves_of(const AlgorithmRow& row, const Load& load,
                                const MachineModel& machine, const NetworkShape& shape = {},
                                const Faults& faults = {}) {
  const Network network(machine, static_cast<int>(machine.hosts.size()), shape, faults);
  const auto host = bind_host_traffic(request_of(row, load, machine), machine, network);
  if (!host) return {};
  WavesRequest request;
  request.faults = &faults;
  return run_waves(*host, run_host(*host, machine), network, request);
}

MachineModel hosts_of_eight(int hosts) {
  MachineModel base;
  base.cores = kRanksOfAHost;
  return on_hosts(base, hosts, kRanksOfAHost);
}

Load agreed_load(Collective collective, size_t bytes, int n) {
  Load load = load_of(collective, bytes, n);
  load.agreement = true;
  return load;
}

TEST(Waves, AgreeWithTheory) {
  constexpr double kAlpha = 5e-6, kBeta = 1 / 12.5e9;
  for (const Closed& closed : kClosed)
    for (const int n : {8, 64, 512})
      for (const size_t bytes : {size_t{1024} * static_cast<size_t>(n), size_t{64} << 20}) {
        if (n > 64 && kSlow) continue;
        const auto found =
            waves_of(*find_algorithm(closed.collective, closed.row),
                     load_of(closed.collective, bytes, n), network_only(n, kAlpha, kBeta));
        const std::string what = fmt::format("{} {}, {} ranks, {} bytes",
                                             to_string(closed.collective), closed.row, n, bytes);
        ASSERT_TRUE(found) << what;
        EXPECT_NEAR(found->seconds / closed.seconds(n, static_cast<double>(bytes), kAlpha, kBeta),
                    1, 1e-3)
            << what;
      }
}

// A port of half the rate is never without a message that waits for it, so only bytes count there.
TEST(Waves, ASlowPortDelaysTheWholeRing) {
  constexpr double kAlpha = 5e-6, kBeta = 1 / 12.5e9;
  constexpr size_t kBytes = size_t{64} << 20;
  const int n = kSlow ? 64 : 512;
  Faults faults;
  add_slow_port(faults, "host7=0.5");
  const auto found = waves_of(*find_algorithm(Collective::all_gather, "ring"),
                              load_of(Collective::all_gather, kBytes, n),
                              network_only(n, kAlpha, kBeta), {}, faults);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->seconds / ((n - 1) * 2.0 * kBytes / n * kBeta), 1, 0.01);
}

// ---- every message

TEST(Waves, WithoutFaultsAreTheWhole) {
  std::vector<double> errors;
  for (const int hosts : {8, 32}) {
    const MachineModel machine = hosts_of_eight(hosts);
    const int n = hosts * kRanksOfAHost;
    for (const AlgorithmRow& row : algorithm_table()) {
      const Where where{0, n, 0, machine.hosts, machine.nodes};
      if (!row.accepts(where) || !moves_data(row.collective)) continue;
      // Of many messages one case says enough.
      const size_t steps = row.build(where).steps.size() * static_cast<size_t>(n);
      for (const size_t kib : {1, 1024, 65536}) {
        if (steps > (kSlow ? 8'000 : 70'000) || (steps > 8'000 && kib != 1024)) continue;
        const Load load = agreed_load(row.collective, kib << 10, n);
        const auto found = waves_of(row, load, machine);
        if (!found) continue;
        const double whole = events_of(row, load, machine).seconds;
        errors.push_back(std::fabs(found->seconds / whole - 1));
        EXPECT_LE(errors.back(), 0.1) << to_string(row.collective) << " " << row.name << ", " << n
                                      << " ranks, " << kib << " KiB";
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_GT(errors.size(), kSlow ? 20U : 45U);
  EXPECT_LE(errors[errors.size() * 9 / 10], 0.001);
}

struct Fault {
  std::string what;
  NetworkShape shape;
  Faults faults;
};

std::vector<Fault> all_faults() {
  NetworkShape rails, by_rank, leaves;
  rails.rails = by_rank.rails = 2;
  by_rank.use = RailUse::by_rank;
  leaves.leaf = 2;
  leaves.uplinks = 2;
  std::vector<Fault> all = {{"slow host", {}, {}},
                            {"slow port", rails, {}},
                            {"dead rail", rails, {}},
                            {"slow port of a rank", by_rank, {}},
                            {"dead rail of a rank", by_rank, {}},
                            {"slow rank", {}, {}},
                            {"late rank", {}, {}},
                            {"uplinks", leaves, {}},
                            {"dead uplink", leaves, {}}};
  add_slow_port(all[0].faults, "host5=0.25");
  for (const int i : {1, 3}) add_slow_port(all[i].faults, "host5/rail1=0.25");
  for (const int i : {2, 4}) add_dead_port(all[i].faults, "host5/rail1");
  add_slow_rank(all[5].faults, "rank42=0.1");
  add_late_rank(all[6].faults, "rank42=5ms");
  add_dead_uplink(all[8].faults, "leaf1/0");
  return all;
}

struct Compared {
  Collective collective;
  const char* row;
  double within;  // of what every message's simulation says
};

// Those of n messages a rank. In `direct` of all_reduce what is late in the first half competes
// with the second one, which no order of the healthy run says.
const Compared kCompared[] = {
    {Collective::all_reduce, "ring", 0.01},
    {Collective::all_reduce, "bidirectional_ring", 0.02},
    {Collective::all_gather, "ring", 0.01},
    {Collective::reduce_scatter, "ring", 0.06},
    {Collective::all_gather, "hierarchical_ring", 0.12},
    {Collective::reduce_scatter, "hierarchical_ring", 0.12},
    {Collective::all_gather, "direct", 0.02},
    {Collective::all_to_all, "pairwise", 0.02},
    {Collective::all_reduce, "direct", 0.45},
    {Collective::all_reduce, "hierarchical", 0.25},
};

TEST(Waves, FaultsHaveTheEffectThatTheyHaveOnEveryMessage) {
  const MachineModel machine = hosts_of_eight(8);
  constexpr int kRanks = 64;
  for (const Compared& c : kCompared) {
    const AlgorithmRow& row = *find_algorithm(c.collective, c.row);
    const Load load = agreed_load(c.collective, size_t{64} << 20, kRanks);
    if (kSlow && &c != kCompared && c.collective != Collective::all_to_all) continue;
    for (const Fault& fault : all_faults()) {
      const double found = waves_of(row, load, machine, fault.shape, fault.faults)->seconds;
      const double whole = events_of(row, load, machine, fault.shape, fault.faults).seconds;
      EXPECT_NEAR(found / whole, 1, c.within)
          << to_string(c.collective) << " " << c.row << ", " << fault.what;
    }
  }
}

// Who calls when the others are nearly done has the ports alone.
TEST(Waves, ALateRankFindsItsPortsFree) {
  const MachineModel machine = hosts_of_eight(8);
  const AlgorithmRow& row = *find_algorithm(Collective::all_to_all, "pairwise");
  const Load load = agreed_load(Collective::all_to_all, 1 << 20, 64);
  Faults late;
  add_late_rank(late, "rank42=5ms");
  const double found = waves_of(row, load, machine, {}, late)->seconds;
  EXPECT_NEAR(found / events_of(row, load, machine, {}, late).seconds, 1, 0.12);
}

TEST(Waves, NameTheRanksAndLinksThatAreSlow) {
  const MachineModel machine = hosts_of_eight(8);
  const AlgorithmRow& row = *find_algorithm(Collective::all_gather, "ring");
  const Load load = agreed_load(Collective::all_gather, size_t{64} << 20, 64);
  Faults faults;
  add_slow_port(faults, "host5=0.25");
  const Network network(machine, 64, {}, faults);
  const Outcome slow = *waves_of(row, load, machine, {}, faults);
  EXPECT_EQ(network.name(slow.links.front().link), "host5/rail0 out");
  EXPECT_GT(slow.links.front().busy, 0.9 * slow.seconds);
  Faults late;
  add_late_rank(late, "rank42=3s");
  const Outcome waited = *waves_of(row, load, machine, {}, late);
  EXPECT_GE(*std::min_element(waited.finish.begin(), waited.finish.end()), 3);
  EXPECT_EQ(waited.finish, waves_of(row, load, machine, {}, late)->finish);
  Faults none;
  add_late_rank(none, "rank64=1s");
  EXPECT_THROW(waves_of(row, load, machine, {}, none), Error);
}

TEST(Waves, NeedHostsThatDoTheSame) {
  const MachineModel machine = hosts_of_eight(8);
  const Load load = agreed_load(Collective::all_reduce, 1 << 20, 64);
  EXPECT_FALSE(waves_of(*find_algorithm(Collective::all_reduce, "double_tree"), load, machine));
  MachineModel uneven = machine;
  uneven.hosts.back() = 0;
  EXPECT_FALSE(waves_of(*find_algorithm(Collective::all_reduce, "ring"), load, uneven));
}

// ---- delays

std::shared_ptr<HostDelays> some(std::vector<float> of) {
  auto delays = std::make_shared<HostDelays>(of.size());
  delays->of = std::move(of);
  return delays;
}

TEST(Delays, PassWithTime) {
  const Delay a = seal(some({3, 0, 1}), 10), b = seal(some({0, 2, 1}), 11);
  EXPECT_FALSE(a.gone(12.9));
  EXPECT_TRUE(a.gone(13));
  EXPECT_EQ(later(a, b, 12).by_host->of, (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(later(a, b, 12).by_host->most, 1);
  // Nothing is copied for one of them alone.
  EXPECT_EQ(later(a, {}, 12).by_host, a.by_host);
  EXPECT_EQ(later(a, b, 13).by_host, nullptr);
  EXPECT_EQ(changeable(a, 11, 3)->of, (std::vector<float>{2, 0, 0}));
  EXPECT_EQ(seal(some({0, 0, 0}), 1).by_host, nullptr);
}

TEST(Delays, MoveAsMessagesDo) {
  const SharedPlacement placement = placement_of(hosts_of_eight(12), 96);
  std::vector<float> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  for (const HostSymmetry& symmetry : symmetries_of(placement)) {
    const HostMoves moves(symmetry);
    const Delay sent = seal(some(numbers), 0);
    for (int far = 0; far < 12; ++far) {
      const Delay received = moves.to_receivers(sent, far);
      for (int h = 0; h < 12; ++h) {
        EXPECT_EQ(symmetry.relation(h, moves.receiver(h, far)), far);
        EXPECT_EQ(moves.sender(moves.receiver(h, far), far), h);
        EXPECT_EQ(received.by_host->of[moves.receiver(h, far)], numbers[h]);
      }
      EXPECT_EQ(moves.to_senders(received, far).by_host->of, numbers);
    }
  }
}

}  // namespace
}  // namespace ringwood

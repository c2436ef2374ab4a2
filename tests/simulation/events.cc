// The event simulation against closed forms, and against that of the cost model.
#include "tools/simulation/events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "tests/simulation/simulated.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// ---- theory

// Sanitizers make the simulation some twenty times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMaxRanks = 64;
constexpr size_t kMaxTraffic = 1000;
#else
constexpr int kMaxRanks = 512;
constexpr size_t kMaxTraffic = 4000;
#endif

TEST(Events, AgreeWithTheory) {
  constexpr double kAlpha = 5e-6, kBeta = 1 / 12.5e9;
  for (const Closed& closed : kClosed)
    for (const int n : {8, 64, 512})
      for (const size_t bytes : {size_t{1024} * static_cast<size_t>(n), size_t{64} << 20}) {
        if (n > kMaxRanks) continue;
        const MachineModel machine = network_only(n, kAlpha, kBeta);
        const double found = events_of(*find_algorithm(closed.collective, closed.row),
                                       load_of(closed.collective, bytes, n), machine)
                                 .seconds;
        const double expected = closed.seconds(n, static_cast<double>(bytes), kAlpha, kBeta);
        EXPECT_NEAR(found / expected, 1, 1e-3) << to_string(closed.collective) << " " << closed.row
                                               << ", " << n << " ranks, " << bytes;
      }
}

// ---- the whole cost model, which binds a few ranks and not all, and is the same otherwise

constexpr double kSame = 1e-9;

TEST(Events, AgreeWithTheCostModel) {
  constexpr int kHosts = 8, kRanks = 8, n = kHosts * kRanks;
  // The suite leaves out rows with more messages, unless it may be slow.
  const size_t most = std::getenv("SLOW_TESTS") ? SIZE_MAX : kMaxTraffic;
  MachineModel base;
  base.cores = kRanks;
  const MachineModel machine = on_hosts(base, kHosts, kRanks);
  const Network network(machine, n, {}, {});
  size_t cases = 0;
  for (const AlgorithmRow& row : algorithm_table()) {
    const Where where{0, n, 0, machine.hosts, machine.nodes};
    if (!row.accepts(where) || !moves_data(row.collective)) continue;
    for (const size_t kib : {1, 64, 1024, 65536}) {
      Load load = load_of(row.collective, kib << 10, n);
      load.agreement = true;
      const Traffic traffic = bind_traffic(request_of(row, load, machine), machine);
      if (traffic.messages.size() > most) continue;
      const double expected = predict(ringwood::build_all(row, where), load, machine).seconds;
      const double found = run_events(traffic, machine, network).seconds;
      EXPECT_NEAR(found / expected, 1, kSame)
          << to_string(row.collective) << " " << row.name << ", " << kib << " KiB";
      ++cases;
    }
  }
  EXPECT_GT(cases, 40u);
}

// Hosts that share their cores, ports that pass a burst at once, and that need a time for each
// message: against the same.
TEST(Events, ShareCoresAndFillBuckets) {
  constexpr int kHosts = 8;
  MachineModel machine = on_hosts(MachineModel{}, kHosts, 1);
  machine.cores = 2;
  machine.net.post = 10e-6;
  machine.net.copied = 1e9;
  machine.net.nic = 100e6;
  for (const double burst : {0.0, 20e3})
    for (const int sharing : {1, 3, kHosts})
      for (const AlgorithmRow& row : algorithm_table()) {
        const Where where{0, kHosts, 0, machine.hosts, machine.nodes};
        if (!row.accepts(where) || !moves_data(row.collective)) continue;
        machine.net.burst = burst;
        machine.net.gap = burst > 0 ? 20e-6 : 0;
        machine.net.sharing = sharing;
        for (const size_t bytes : {size_t{8}, size_t{4} << 10, size_t{256} << 10}) {
          Load load = load_of(row.collective, bytes, kHosts);
          load.agreement = true;
          const double expected = predict(ringwood::build_all(row, where), load, machine).seconds;
          EXPECT_NEAR(events_of(row, load, machine).seconds / expected, 1, kSame)
              << to_string(row.collective) << " " << row.name << ", " << bytes << " bytes, "
              << sharing << " share, burst " << burst;
        }
      }
}

// ---- what goes wrong

// Two rails of 10 Gbit/s, leaves of 4 hosts.
Outcome wrong(const char* row, const NetworkShape& shape, const Faults& faults,
              const DeviceParameters& devices = {}) {
  MachineModel base;
  base.cores = 4;
  base.device = devices;
  const MachineModel machine = on_hosts(base, 16, 4);
  Load load = load_of(Collective::all_reduce, 64 << 20, 64);
  load.agreement = true;
  return events_of(*find_algorithm(Collective::all_reduce, row), load, machine, shape, faults);
}

TEST(Events, FaultsGoTheWayTheyMust) {
  NetworkShape rails;
  rails.rails = 2;
  NetworkShape leaves = rails;
  leaves.leaf = 4;
  leaves.uplinks = 4;
  NetworkShape narrow = leaves;
  narrow.uplinks = 2;
  Faults slow_port, dead_rail, slow_rank, late, uplinks;
  add_slow_port(slow_port, "host7/rail1=0.25");
  add_dead_port(dead_rail, "host7/rail1");
  add_slow_rank(slow_rank, "rank9=0.1");
  add_late_rank(late, "rank9=5ms");
  add_dead_uplink(uplinks, "leaf1/0-1");
  for (const char* row : {"halving_doubling", "hierarchical", "ring"}) {
    const double whole = wrong(row, rails, {}).seconds;
    // One rail more or less makes no difference where none fails: the host is as fast.
    EXPECT_NEAR(wrong(row, {}, {}).seconds / whole, 1, 0.01) << row;
    // All cross-host traffic passes each host: what a host's ports lose, all lose.
    const double quarter = wrong(row, rails, slow_port).seconds;
    const double dead = wrong(row, rails, dead_rail).seconds;
    EXPECT_GT(quarter, whole * 1.02) << row;
    EXPECT_GT(dead, quarter) << row;
    EXPECT_LT(dead, whole * 2.5) << row;
    EXPECT_GT(wrong(row, rails, slow_rank).seconds, whole * 1.1) << row;
    const double after = wrong(row, rails, late).seconds;
    EXPECT_GT(after, whole) << row;
    EXPECT_LE(after, whole + 5.5e-3) << row;  // nothing is received before it calls
    // A core with few uplinks is never faster.
    const double hashed = wrong(row, leaves, {}).seconds;
    EXPECT_GE(hashed, whole * 0.999) << row;
    EXPECT_GE(wrong(row, narrow, {}).seconds, hashed * 0.999) << row;
    // Of those that remain a seed may choose better: of 8 seeds, up to 3 %.
    EXPECT_GE(wrong(row, leaves, uplinks).seconds, hashed * 0.95) << row;
  }
  // A ring crosses leaves once; halves cross them all the time.
  EXPECT_NEAR(wrong("ring", narrow, {}).seconds / wrong("ring", rails, {}).seconds, 1, 0.02);
  EXPECT_GT(wrong("halving_doubling", narrow, {}).seconds,
            1.5 * wrong("halving_doubling", rails, {}).seconds);
}

// Halving and doubling on 4 hosts lasts S/2 + S/4 + S/4 + S/2. At half a host's rate each of its
// rounds lasts twice as long, and that is not all: its first partner is done with the others and
// sends its last S/2 while the S/4 of round 3 is on its way, so that this lasts twice as long once
// more, and round 4 begins later. 7/3, by a dead rail as by a slow port.
TEST(Events, WhatComesEarlyDelaysWhatIsWaitedFor) {
  MachineModel machine = network_only(4, 0, 1 / 12.5e9);
  machine.net.eager = 0;
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "halving_doubling");
  const Load load = load_of(Collective::all_reduce, 64 << 20, 4);
  NetworkShape rails;
  rails.rails = 2;
  Faults dead, slow;
  add_dead_port(dead, "host1/rail1");
  add_slow_port(slow, "host1=0.5");
  const double whole = events_of(row, load, machine, rails).seconds;
  EXPECT_NEAR(events_of(row, load, machine, rails, dead).seconds / whole, 7.0 / 3, 0.01);
  EXPECT_NEAR(events_of(row, load, machine, rails, slow).seconds / whole, 7.0 / 3, 0.01);
}

TEST(Events, SeedsDecideAndNothingElse) {
  NetworkShape shape;
  shape.leaf = 4;
  shape.uplinks = 4;
  std::vector<double> times;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    shape.seed = seed;
    const Outcome once = wrong("halving_doubling", shape, {});
    const Outcome again = wrong("halving_doubling", shape, {});
    EXPECT_EQ(once.finish, again.finish);
    times.push_back(once.seconds);
  }
  std::sort(times.begin(), times.end());
  EXPECT_GT(times.back(), times.front() * 1.01);
}

// Islands and the network in parallel: with a fast island, what is left is the network.
TEST(Events, IslandsAreFasterThanHosts) {
  NetworkShape rails;
  rails.rails = 4;
  rails.use = RailUse::by_rank;
  DeviceParameters islands{100e9, 1e-6};
  const double with = wrong("hierarchical", rails, {}, islands).seconds;
  const double without = wrong("hierarchical", {}, {}).seconds;
  EXPECT_LT(with, without);
  islands.rate = 1e9;
  // 3/4 of the buffer out of each rank's port twice.
  EXPECT_GT(wrong("hierarchical", rails, {}, islands).seconds, 2 * 0.75 * (64 << 20) / 1e9);
  Faults dead;
  add_dead_port(dead, "host2/rail3");
  EXPECT_GT(wrong("hierarchical", rails, dead, islands).seconds,
            wrong("hierarchical", rails, {}, islands).seconds);
}

// The choice and the simulation have one price for what GPUs send each other.
TEST(Events, GpusTakeWhatTheChoicePredicts) {
  MachineModel base;
  base.cores = 4;
  base.device = {400e9, 2e-6};
  use_rdma_prior(base);
  base.net.rails = 4;
  base.net.rail_of_rank = true;
  const MachineModel machine = on_hosts(base, 16, 4);
  NetworkShape rails;
  rails.rails = 4;
  rails.use = RailUse::by_rank;
  for (const char* name : {"hierarchical", "ring", "double_tree", "direct"}) {
    const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, name);
    Load load = load_of(Collective::all_reduce, 64 << 20, 64);
    load.agreement = true;
    const double predicted =
        predict(build_all(row, {0, 64, 0, machine.hosts}), load, machine).seconds;
    const double simulated = events_of(row, load, machine, rails, {}).seconds;
    EXPECT_NEAR(predicted, simulated, 0.02 * simulated) << name;
  }
}

// Over RDMA the device reads what is sent from scratch, which is registered.
TEST(Events, AgreeWithTheCostModelOverRdma) {
  MachineModel base;
  use_rdma_prior(base);
  base.net.nic = 50e9;
  for (const int ranks : {1, 4}) {
    const MachineModel machine = on_hosts(base, 16, ranks);
    const int n = 16 * ranks;
    for (const char* name : {"ring", "pat", "bruck", "direct"}) {
      const AlgorithmRow& row = *find_algorithm(Collective::all_gather, name);
      for (const size_t bytes : {size_t{1} << 20, size_t{8} << 20}) {
        Load load = load_of(Collective::all_gather, bytes, n);
        load.agreement = true;
        const double predicted =
            predict(build_all(row, {0, n, 0, machine.hosts}), load, machine).seconds;
        EXPECT_NEAR(events_of(row, load, machine).seconds / predicted, 1, kSame)
            << name << " " << n << " " << bytes;
      }
    }
  }
}

// Of a message that is not cut both have one rail of several.
TEST(Events, StripedRailsTakeWhatTheChoicePredicts) {
  MachineModel base;
  base.cores = 64;
  use_rdma_prior(base);
  base.net.rails = 2;
  const MachineModel machine = on_hosts(base, 16, 1);
  NetworkShape rails;
  rails.rails = 2;
  for (const char* name : {"ring", "direct", "pat"})
    for (const size_t block : {size_t{32} << 10, size_t{256} << 10}) {
      const AlgorithmRow& row = *find_algorithm(Collective::all_gather, name);
      Load load{Collective::all_gather, block, 4};
      load.agreement = true;
      const double predicted =
          predict(build_all(row, {0, 16, 0, machine.hosts}), load, machine).seconds;
      const double simulated = events_of(row, load, machine, rails, {}).seconds;
      EXPECT_NEAR(predicted, simulated, 0.03 * simulated) << name << " " << block;
    }
}

TEST(Events, RowsOfLogarithmicallyManyStepsAtScale) {
  const bool slow = std::getenv("SLOW_TESTS") != nullptr;
  MachineModel base;
  base.cores = 8;
  const MachineModel machine = on_hosts(base, slow ? 2048 : 128, 8);
  const auto n = static_cast<double>(machine.hosts.size());
  const Load load = load_of(Collective::all_reduce, 64 << 20, static_cast<int>(n));
  const double found =
      events_of(*find_algorithm(Collective::all_reduce, "halving_doubling"), load, machine).seconds;
  // Each host sends what its 8 ranks send across, through one port; the cores add their part.
  const double network = 8 * 2 * (1 - 8 / n) * (64 << 20) / machine.net.nic;
  EXPECT_GT(found, network * 0.999);
  EXPECT_LT(found, network * 1.1);
}

}  // namespace
}  // namespace ringwood

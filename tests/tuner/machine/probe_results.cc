// From the reports of hosts to the parameters of the network.
#include "collectives/tuner/machine/probe_results.h"
#include "collectives/tuner/machine/probe.h"

#include <gtest/gtest.h>

#include "collectives/tuner/machine/network_facts.h"
#include "collectives/tuner/machine/probe.h"
#include "collectives/tuner/machine/rail_leaders.h"

namespace ringwood {
namespace {

constexpr double kRate = 1e9;

// What a probe of hosts with these rates out and in would find; `far`: the rate that the middle
// leaves to each.
ProbeResults probed(const std::vector<double>& out, const std::vector<double>& in, double far,
                    const std::vector<int>& leaves = {}) {
  const size_t n = out.size();
  std::vector<int> leaders;
  for (size_t h = 0; h < n; ++h) leaders.push_back(static_cast<int>(h));
  ProbeResults results;
  const auto stage = [&](ProbeStage which, double most, double latency) {
    std::vector<ProbeReport> reports;
    const auto steps = probe_steps(which, leaders, leaves, {});
    for (size_t h = 0; h < n; ++h) {
      const int to = steps[h].to;
      reports.push_back({latency, to < 0 ? 0 : std::min({out[h], in[to], most})});
    }
    return reports;
  };
  results.ping = stage(ProbeStage::ping, 0, 10e-6);
  results.alone = stage(ProbeStage::alone, 1e18, 0);
  results.near = stage(ProbeStage::near, 1e18, 0);
  if (n > 2) results.far = stage(ProbeStage::far, far, 10e-6);
  return results;
}

std::vector<std::string> names_of(size_t hosts) {
  std::vector<std::string> names;
  for (size_t h = 0; h < hosts; ++h) names.push_back("node " + std::to_string(h));
  return names;
}

MachineModel fitted(const std::vector<double>& out, const std::vector<double>& in, double far) {
  MachineModel machine;
  machine.net.post = 1e-6;
  use_results(machine, probed(out, in, far), names_of(out.size()), false);
  return machine;
}

// A file of the topology knows of rails, which over verbs are measured together.
TEST(ProbeResults, RailsThatNobodyMeasuredApartHaveNoExceptions) {
  const std::vector<double> rates = {1e9, 1e9, 0.25e9, 1e9};
  MachineModel machine;
  machine.net.rails = 4;
  use_results(machine, probed(rates, rates, 1e18), names_of(4), false);
  ASSERT_EQ(machine.net.exceptions.size(), 1u);
  EXPECT_EQ(machine.net.exceptions[0].host, 2);
  EXPECT_EQ(machine.net.exceptions[0].rail, -1);
  EXPECT_EQ(machine.net.rails, 4);
}

TEST(ProbeSteps, EverySendHasItsReceiveAndLeavesDecideWhoIsNear) {
  const std::vector<std::vector<int>> kinds = {{}, {0, 1, 0, 1, 0, 1, 0, 1}};
  for (const auto& leaves : kinds) {
    for (size_t n = 2; n <= 9; ++n) {
      std::vector<int> leaders;
      for (size_t h = 0; h < n; ++h) leaders.push_back(static_cast<int>(10 * h));
      for (const auto stage :
           {ProbeStage::ping, ProbeStage::alone, ProbeStage::near, ProbeStage::far}) {
        const auto steps = probe_steps(stage, leaders, leaves, {});
        for (size_t h = 0; h < n; ++h) {
          const ProbeStep& mine = steps[h];
          if (mine.to >= 0) {
            EXPECT_EQ(steps[mine.to / 10].from, leaders[h]);
          }
          if (mine.pings >= 0) {
            EXPECT_EQ(steps[mine.pings / 10].pings, leaders[h]);
            EXPECT_NE(steps[mine.pings / 10].first, mine.first);
          }
          EXPECT_TRUE(stage != ProbeStage::far || mine.to >= 0);
          if (leaves.size() != n || mine.to < 0) continue;
          const bool same = leaves[h] == leaves[mine.to / 10];
          EXPECT_EQ(same, stage != ProbeStage::far) << h;
        }
      }
    }
  }
}

TEST(ProbeResults, EqualHostsHaveNeitherFarPathsNorExceptions) {
  for (const size_t n : {2, 3, 4, 7, 8}) {
    const std::vector<double> all(n, kRate);
    const MachineModel machine = fitted(all, all, 1e18);
    EXPECT_DOUBLE_EQ(machine.net.nic, kRate);
    EXPECT_DOUBLE_EQ(machine.net.both_ways, 1);
    EXPECT_DOUBLE_EQ(machine.net.latency, 8e-6);
    EXPECT_FALSE(machine.net.far) << n;
    EXPECT_TRUE(machine.net.exceptions.empty()) << n;
  }
}

TEST(ProbeResults, TheMiddleIsTheFarPath) {
  const std::vector<double> all(8, kRate);
  const MachineModel machine = fitted(all, all, kRate / 4);
  ASSERT_TRUE(machine.net.far);
  EXPECT_DOUBLE_EQ(machine.net.far->rate, kRate / 4);
  EXPECT_TRUE(machine.net.exceptions.empty());
}

TEST(ProbeResults, OneSlowHostIsNamedWhateverItsDirection) {
  for (const size_t n : {4, 5, 7, 8}) {
    for (size_t slow = 0; slow < n; ++slow) {
      // Only the paths of the last of an odd number of hosts are not measured alone.
      for (const int direction : {0, 1, 2}) {
        if (n % 2 == 1 && direction == 1 && slow + 1 == n) continue;
        std::vector<double> out(n, kRate), in(n, kRate);
        if (direction != 1) out[slow] /= 4;
        if (direction != 0) in[slow] /= 4;
        const MachineModel machine = fitted(out, in, 1e18);
        ASSERT_EQ(machine.net.exceptions.size(), 1u) << n << " " << slow << " " << direction;
        const HostException& one = machine.net.exceptions[0];
        EXPECT_EQ(one.host, static_cast<int>(slow));
        EXPECT_NEAR(one.rate, 0.25, 1e-9);
        EXPECT_EQ(one.name, "node-" + std::to_string(slow));
        EXPECT_DOUBLE_EQ(machine.net.nic, kRate);
      }
    }
  }
}

// Two rails, of which the second has these rates.
MachineModel fitted_rails(const std::vector<double>& second) {
  const std::vector<double> all(second.size(), kRate);
  ProbeResults results = probed(all, all, 1e18);
  const ProbeResults other = probed(second, second, 1e18);
  results.rails.push_back({other.near, other.far});
  MachineModel machine;
  use_results(machine, results, names_of(second.size()), false);
  return machine;
}

TEST(ProbeResults, OneSlowRailIsNamed) {
  for (const size_t n : {2, 3, 4, 8}) {
    const MachineModel equal = fitted_rails(std::vector<double>(n, kRate));
    EXPECT_TRUE(equal.net.rail_of_rank);
    EXPECT_EQ(equal.net.rails, 2);
    EXPECT_DOUBLE_EQ(equal.net.nic, 2 * kRate);
    EXPECT_TRUE(equal.net.exceptions.empty()) << n;
    EXPECT_FALSE(equal.net.far) << n;
    for (size_t slow = 0; slow < n && n > 3; ++slow) {
      std::vector<double> second(n, kRate);
      second[slow] /= 4;
      const NetworkParameters net = fitted_rails(second).net;
      ASSERT_EQ(net.exceptions.size(), 1u) << n << " " << slow;
      EXPECT_EQ(print(net.exceptions[0]), "node-" + std::to_string(slow) + " rail 1");
      EXPECT_NEAR(net.exceptions[0].rate, 0.25, 1e-9);
    }
  }
  // Slow on every host: so is the rail of each.
  const NetworkParameters net = fitted_rails(std::vector<double>(4, kRate / 3)).net;
  EXPECT_DOUBLE_EQ(net.nic, kRate * 4 / 3);
  ASSERT_EQ(net.exceptions.size(), 4u);
  EXPECT_NEAR(net.exceptions[3].rate, 0.5, 1e-9);
}

TEST(RailLeaders, RanksTakeTheAddressesOfTheirHostsInTurns) {
  using Leaders = std::vector<std::vector<int>>;
  EXPECT_EQ(rail_leaders({0, 0, 0, 1, 1}, {"a", "b", "a", "c", "d"}), (Leaders{{0, 3}, {1, 4}}));
  EXPECT_EQ(rail_leaders({0, 1, 0, 1}, {"a", "c", "b", "d"}), (Leaders{{0, 1}, {2, 3}}));
  const Leaders one = {{0, 2}};
  EXPECT_EQ(rail_leaders({0, 0, 1, 1}, {"a", "a", "b", "b"}), one);
  EXPECT_EQ(rail_leaders({0, 0, 1, 1}, {"a", "b", "c", "c"}), one);
  EXPECT_EQ(rail_leaders({0, 0, 1}, {"a", "b", "c"}), one);
  EXPECT_EQ(rail_leaders({0, 0, 0, 0, 1}, {"a", "a", "b", "b", "c"}), (Leaders{{0, 4}}));
}

TEST(ProbeResults, ExceptionsFollowTheirNames) {
  const std::vector<HostException> known = {
      {2, 0.25, "node-7", 0}, {2, 0.5, "node-7", 1}, {3, 0.5, "node-9"}};
  const auto found = exceptions_among(known, {"a", "node 7", "b"});
  const std::vector<HostException> expected = {{1, 0.25, "node-7", 0}, {1, 0.5, "node-7", 1}};
  EXPECT_EQ(found, expected);
}

// Containers may all have the name of the image.
TEST(ProbeResults, ExceptionsOfHostsOfOneNameAreNotKnownAgain) {
  EXPECT_FALSE(exceptions_among({{1, 0.25, "vm"}}, {"vm", "vm"}));
  EXPECT_FALSE(exceptions_among({{0, 0.25, "vm"}, {1, 0.5, "vm"}}, {"a", "vm"}));
  EXPECT_TRUE(exceptions_among({{0, 0.25, "vm"}, {1, 0.5, "vm"}}, {"a", "b"})->empty());
  EXPECT_EQ(exceptions_among({{0, 0.25, "slow"}}, {"vm", "vm", "slow"})->size(), 1u);
}

// ---- what a core does

ProbeResults with_cores(size_t hosts) {
  const std::vector<double> all(hosts, kRate);
  ProbeResults results = probed(all, all, 1e18);
  results.busy.resize(hosts);
  for (ProbeReport& report : results.busy) report.post = 3e-6, report.byte = 2e-9;
  results.busy[0].post = results.busy[0].byte = 1;  // something else ran there
  return results;
}

TEST(ProbeResults, ACoreThatSleepsPaysForItsMessages) {
  for (const bool sleeps : {false, true})
    for (const int sharing : {1, 4}) {
      MachineModel machine;
      machine.net.post = 1e-6;
      machine.net.sharing = sharing;
      use_results(machine, with_cores(4), names_of(4), sleeps);
      EXPECT_DOUBLE_EQ(machine.net.copied, 0.5e9);
      const bool measured = sleeps || sharing > 1;
      EXPECT_EQ(machine.net.post > 3e-6, measured) << sleeps << " " << sharing;
      if (!measured) EXPECT_DOUBLE_EQ(machine.net.post, 1e-6);
      EXPECT_DOUBLE_EQ(machine.net.behind, measured ? 1.0 / 3 : 1) << "of what loopback took";
      EXPECT_DOUBLE_EQ(machine.net.latency, measured ? 4e-6 : 8e-6);
      EXPECT_DOUBLE_EQ(ping_of(machine, sleeps), 10e-6);
    }
}

// Nothing else has measured what a message over RDMA takes of a core.
TEST(ProbeResults, ACoreOfRdmaIsMeasuredWhereverItWaits) {
  for (const bool sleeps : {false, true}) {
    MachineModel machine;
    use_rdma_prior(machine);
    ProbeResults results = with_cores(4);
    for (ProbeReport& report : results.busy) report.streamed = 0.5e-6;
    use_results(machine, results, names_of(4), sleeps);
    // Awake it takes no event for each piece: no longer than the fastest transfer.
    EXPECT_DOUBLE_EQ(machine.net.copied, sleeps ? 0.5e9 : machine.net.nic);
    EXPECT_EQ(machine.net.post > 3e-6, sleeps);
    if (!sleeps) EXPECT_EQ(machine.net.post < 1e-6 && machine.net.post > 0.5e-6, true);
    EXPECT_DOUBLE_EQ(machine.net.behind, sleeps ? 0.5 / 3 : 1);
    EXPECT_DOUBLE_EQ(ping_of(machine, sleeps), 10e-6);
  }
}

TEST(ProbeResults, AnUnknownCoreLeavesTheCalibration) {
  const std::vector<double> all(4, kRate);
  MachineModel machine;
  const NetworkParameters before = machine.net;
  use_results(machine, probed(all, all, 1e18), names_of(4), true);
  EXPECT_EQ(machine.net.post, before.post);
  EXPECT_EQ(machine.net.copied, before.copied);
  EXPECT_EQ(machine.net.burst, 0);
}

TEST(ProbeResults, ABurstIsThatOfMostHosts) {
  const std::vector<double> all(4, kRate);
  for (const size_t with : {1, 2, 3, 4}) {
    ProbeResults results = probed(all, all, 1e18);
    for (size_t h = 0; h < with; ++h) results.alone[h].burst = 20e3;
    MachineModel machine;
    use_results(machine, results, names_of(4), false);
    EXPECT_EQ(machine.net.burst, with > 2 ? 20e3 : 0) << with;
  }
}

TEST(ProbeResults, HostsThatShareCoresAreThoseOfEqualTokens) {
  EXPECT_EQ(hosts_sharing({}), 1);
  EXPECT_EQ(hosts_sharing({"a", "b", "c"}), 1);
  EXPECT_EQ(hosts_sharing({"a", "a", "a", "a"}), 4);
  EXPECT_EQ(hosts_sharing({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(hosts_sharing({"a", "a", "a", "b"}), 2);
}

TEST(ProbeResults, HostsParametersAreMedians) {
  std::vector<MachineModel> hosts(3);
  hosts[0].post = 3;
  hosts[1].post = 1;
  hosts[2].post = 2;
  hosts[0].cores = 5;
  const MachineModel median = median_of(hosts);
  EXPECT_EQ(median.post, 2);
  EXPECT_EQ(median.cores, 5);
  EXPECT_EQ(median.latency, MachineModel{}.latency);
}

TEST(NetworkTitle, IsThatOfLikeHosts) {
  const Options options;
  const auto title = [&](std::vector<HostFacts> hosts) { return network_title(hosts, 1, options); };
  const HostFacts a{"a", "x; tcp", "1", "m"}, b{"b", "x; tcp", "2", "n"},
      other{"c", "y; tcp", "", "o"};
  HostFacts another = a;
  another.cores = "p";
  EXPECT_EQ(title({a, b}), title({b, a, another}));
  EXPECT_NE(title({a, b}), title({a, b, a, b}));
  EXPECT_NE(title({a, b}), title({a, other}));
  HostFacts container = b;
  container.cores = a.cores;
  EXPECT_NE(title({a, b}), title({a, container}));
}

// 2 MiB in the microsecond that a late clock leaves: 16,777 Gbit/s.
TEST(ProbeResults, ImpossibleRatesAreNone) {
  MachineModel machine;
  EXPECT_EQ(possible_rate((2 << 20) / 1e-6, machine), 0);
  for (const double none : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0})
    EXPECT_EQ(possible_rate(none, machine), 0);
  for (const double rate : {1.0, 1e9, 25e9}) EXPECT_EQ(possible_rate(rate, machine), rate);
  // Fast hosts have fast networks.
  machine.memory = 250e9;
  EXPECT_EQ(possible_rate(400e9, machine), 400e9);
}

TEST(ProbeResults, LatencyIsNotMostOfATransfer) {
  EXPECT_DOUBLE_EQ(seconds_of_bytes(10e-3, 1e-3), 8e-3);
  EXPECT_DOUBLE_EQ(seconds_of_bytes(3e-3, 2e-3), 1.5e-3);
  EXPECT_GT(seconds_of_bytes(0, 0), 0);
}

TEST(ProbeResults, WithoutARateThePriorRemains) {
  MachineModel machine;
  machine.net.nic = 3e9;
  ProbeResults results = probed({kRate, kRate, kRate, kRate}, {kRate, kRate, kRate, kRate}, kRate);
  for (auto* reports : {&results.alone, &results.near, &results.far})
    for (ProbeReport& report : *reports) report.rate = 0;
  use_results(machine, results, names_of(4), false);
  EXPECT_EQ(machine.net.nic, 3e9);
  EXPECT_EQ(machine.net.both_ways, 1);
  EXPECT_FALSE(machine.net.far);
  EXPECT_TRUE(machine.net.exceptions.empty());
  EXPECT_NEAR(machine.net.latency, 10e-6 - 2 * machine.net.post, 1e-12);
}

}  // namespace
}  // namespace ringwood

// What messages between the devices (GPUs) of hosts cost, against formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost.h"
#include "tests/tuner/cost/network_of.h"

namespace ringwood {
namespace {

constexpr double kS = 64e6, kRate = 400e9, kLatency = 2e-6;

double seconds_of(Collective collective, const char* name, const MachineModel& machine) {
  const auto n = static_cast<int>(machine.hosts.size());
  const Where where{0, n, 0, machine.hosts, machine.nodes};
  const bool blocks = required_chunks(collective, n) > 0;
  const Load load{collective, static_cast<size_t>(blocks ? kS / n : kS)};
  return predict(build_all(*find_algorithm(collective, name), where), load, machine).seconds;
}

MachineModel devices_of(const std::vector<int>& hosts) {
  MachineModel machine = network_of(hosts);
  machine.device = {kRate, kLatency};
  return machine;
}

TEST(CostOfDevices, PortsCarryWhatARankSends) {
  const MachineModel machine = devices_of(std::vector<int>(8, 0));
  const double bytes = 7.0 / 8 * kS / kRate;
  const double direct = seconds_of(Collective::all_gather, "direct", machine);
  EXPECT_NEAR(direct, kLatency + bytes, 0.01 * direct);
  const double ring = seconds_of(Collective::all_gather, "ring", machine);
  EXPECT_NEAR(ring, 7 * kLatency + bytes, 0.01 * ring);
}

TEST(CostOfDevices, NoCoreAndNoMemoryOfTheHostTakesPart) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  const MachineModel machine = devices_of(hosts);
  MachineModel slow = machine;
  slow.memory = slow.handed = slow.net.copied = 1e6;
  slow.copy = slow.reduce = {1e6, 1e6, 1e6};
  for (const char* row : {"ring", "hierarchical", "recursive_doubling"})
    EXPECT_DOUBLE_EQ(seconds_of(Collective::all_reduce, row, slow),
                     seconds_of(Collective::all_reduce, row, machine))
        << row;
}

// Between islands of a host the way is through its memory.
TEST(CostOfDevices, AnIslandIsAMemoryNode) {
  MachineModel machine = devices_of(std::vector<int>(4, 0));
  machine.cores = 4;
  machine.nodes = {0, 0, 1, 1};
  machine.node_handed = 10e9;
  machine.memory = 1e15;
  machine.eager = 0;  // both ends at the same time
  // In each of three rounds two messages go from one island to the other one.
  const double rounds = 3, bytes = kS / 4;
  const double handed = rounds * bytes / machine.node_handed;
  EXPECT_NEAR(seconds_of(Collective::all_gather, "ring", machine), handed, 0.05 * handed);
  machine.memory = 1e9;
  const double passed = rounds * 2 * 2 * bytes / machine.memory;
  EXPECT_NEAR(seconds_of(Collective::all_gather, "ring", machine), passed, 0.05 * passed);
}

// What the hosts' interfaces need, and on the way there and back what the ports need.
TEST(CostOfDevices, TheChoiceComesNearTheInterfaces) {
  for (const int hosts : {2, 16, 128}) {
    MachineModel machine;
    for (int r = 0; r < 8 * hosts; ++r) machine.hosts.push_back(r / 8);
    machine.cores = 64;
    use_rdma_prior(machine);
    machine.net.nic = 400e9;
    machine.net.rails = 8;
    machine.net.rail_of_rank = true;
    machine.device = {450e9, kLatency};
    ModelQuery q;
    q.collective = Collective::all_reduce;
    q.n = 8 * hosts;
    q.bytes = size_t{1} << 30;
    q.machine = &machine;
    const TuningChoice choice = choose(q, {});
    const auto bytes = static_cast<double>(q.bytes);
    const double least = std::max(2.0 * 7 / 8 * bytes / machine.device.rate,
                                  2.0 * (hosts - 1) / hosts * bytes / machine.net.nic);
    EXPECT_GE(choice.seconds, least) << choice.algorithm;
    EXPECT_LE(choice.seconds, 1.25 * least) << hosts << ' ' << choice.algorithm;
  }
}

}  // namespace
}  // namespace ringwood

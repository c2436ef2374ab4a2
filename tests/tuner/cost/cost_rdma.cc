// What messages between hosts cost over RDMA, against formulas.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost.h"
#include "tests/tuner/cost/network_of.h"

namespace ringwood {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

double ring_all_gather(const MachineModel& machine, size_t block, bool zero_copy = false) {
  const AlgorithmRow* row = find_algorithm(Collective::all_gather, "ring");
  const auto n = static_cast<int>(machine.hosts.size());
  std::vector<Schedule> schedules;
  for (int r = 0; r < n; ++r) schedules.push_back(row->build({r, n}));
  Load load{Collective::all_gather, block};
  load.zero_copy = zero_copy;
  return predict(schedules, load, machine).seconds;
}

// Of memory that costs nothing, and of a core that takes so long to copy into and out of a link.
MachineModel rdma(double nic, double copied) {
  MachineModel machine = network_of(4);
  machine.net.carrier = PathClass::rdma;
  machine.net.nic = nic;
  machine.net.copied = copied;
  machine.net.eager = 1 << 20;
  return machine;
}

TEST(CostOfRdma, TheNetworkLimitsWhatTheCoresCanDo) {
  for (const double nic : {12.5e9, 50e9}) {
    const double seconds = ring_all_gather(rdma(nic, 400e9), 16 * kMiB);
    EXPECT_NEAR(seconds, 48 * kMiB / nic, 0.02 * seconds) << nic;
  }
}

// A core copies all that it sends, and all that it receives.
TEST(CostOfRdma, TheCoreLimitsAFastNetwork) {
  const double seconds = ring_all_gather(rdma(50e9, 10e9), 16 * kMiB);
  EXPECT_NEAR(seconds, 2 * 48 * kMiB / 10e9, 0.02 * seconds);
}

TEST(CostOfRdma, TheDeviceReadsSharedBuffersItself) {
  const double seconds = ring_all_gather(rdma(50e9, 10e9), 16 * kMiB, true);
  EXPECT_NEAR(seconds, 48 * kMiB / 10e9, 0.02 * seconds);
}

TEST(CostOfRdma, SmallMessagesAreCopiedAllTheSame) {
  const auto block = static_cast<size_t>(MachineModel{}.net.zero_copy) / 2;
  const MachineModel machine = rdma(50e9, 10e9);
  EXPECT_DOUBLE_EQ(ring_all_gather(machine, block, true), ring_all_gather(machine, block));
}

// The kernel copies all, on whatever memory.
TEST(CostOfRdma, SocketsCostMore) {
  MachineModel machine;
  machine.hosts = {0, 1, 2, 3};
  machine.cores = 64;
  machine.net.nic = 12.5e9;
  const double over_sockets = ring_all_gather(machine, 16 * kMiB);
  use_rdma_prior(machine);
  EXPECT_GT(over_sockets, 2 * ring_all_gather(machine, 16 * kMiB, true));
}

// 64 MiB of four hosts, as it is chosen: what the wire needs, or the core that receives.
TEST(CostOfRdma, TheChoiceReachesTheBounds) {
  const auto chosen = [](double nic, const Rates& memory) {
    MachineModel machine;
    machine.hosts = {0, 1, 2, 3};
    machine.cores = 64;
    machine.copy = machine.reduce = memory;
    machine.memory = 1e12;
    use_rdma_prior(machine);
    machine.net.nic = nic;
    ModelQuery query;
    query.collective = Collective::all_gather;
    query.bytes = 16 * kMiB;
    query.n = 4;
    query.several_hosts = true;
    query.machine = &machine;
    double shared = 0;
    for (const Candidate& c : explain(query, Options{}))
      if (c.chosen) shared = c.zero_copy_seconds;
    return shared;
  };
  const double bytes = 48 * kMiB;
  EXPECT_NEAR(chosen(12.5e9, {200e9, 200e9, 200e9}), bytes / 12.5e9, 0.05 * bytes / 12.5e9);
  EXPECT_NEAR(chosen(50e9, {200e9, 200e9, 200e9}), bytes / 50e9, 0.05 * bytes / 50e9);
  // Of 20 GB/s a core copies out of the ring what 50 GB/s bring, and its own block.
  const double copied = (bytes + 16 * kMiB) / 20e9;
  EXPECT_NEAR(chosen(50e9, {20e9, 20e9, 20e9}), copied, 0.05 * copied);
}

}  // namespace
}  // namespace ringwood

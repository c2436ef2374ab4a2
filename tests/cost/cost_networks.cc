// The cost of messages between hosts that are not alike, and beyond the middle of a network.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/cost/cost.h"

namespace ringwood {
namespace {

constexpr double kBeta = 0.8e-9;  // seconds of a host's interface for a byte

// Only the network costs anything.
MachineModel network_of(std::vector<int> hosts) {
  constexpr double kFree = 1e17;
  MachineModel f;
  f.hosts = std::move(hosts);
  f.cores = 64;
  f.copy = f.reduce = {kFree, kFree, kFree};
  f.exchanged = {kFree, kFree, kFree};
  f.memory = f.handed = f.net.socket = kFree;
  f.call = f.post = f.look = f.latency = f.yield = f.net.latency = f.net.post = 0;
  f.eager = f.net.eager = 1e12;
  f.net.nic = 1 / kBeta;
  return f;
}

// One rank on each.
MachineModel network_of(int hosts) {
  std::vector<int> places(hosts);
  std::iota(places.begin(), places.end(), 0);
  return network_of(std::move(places));
}

std::vector<Schedule> direct_all_gather(int n) {
  const AlgorithmRow* row = find_algorithm(Collective::all_gather, "direct");
  std::vector<Schedule> all;
  for (int r = 0; r < n; ++r) all.push_back(row->build({r, n}));
  return all;
}

// When each message has arrived, by receiver and sender.
std::map<std::pair<int, int>, double> arrivals(const std::vector<Schedule>& schedules, double bytes,
                                               const MachineModel& machine) {
  Load load{Collective::all_gather, static_cast<size_t>(bytes)};
  load.timeline = true;
  std::map<std::pair<int, int>, double> ends;
  for (const Interval& i : predict(schedules, load, machine).timeline)
    if (const Step& step = schedules[i.rank].steps[i.step]; step.kind == StepKind::recv)
      ends[{i.rank, step.peer}] = i.end;
  return ends;
}

// A slow port has 3 messages each way, of a twelfth of the others' rate. The others have two more
// each way, at what that leaves.
TEST(CostOfNetworks, ASlowHostSlowsItsOwnMessagesOnly) {
  const double S = 8e6;
  MachineModel f = network_of(4);
  f.net.exceptions = {{2, 0.25, "slow"}};
  for (const auto& [ends, time] : arrivals(direct_all_gather(4), S, f)) {
    const bool slow = ends.first == 2 || ends.second == 2;
    const double expected = slow ? 12 * S * kBeta : 24.0 / 11 * S * kBeta;
    EXPECT_NEAR(time, expected, 0.01 * expected) << ends.second << " to " << ends.first;
  }
}

TEST(CostOfNetworks, ARailIsThatOfTheLowerRank) {
  const double S = 8e6;
  MachineModel f = network_of({0, 0, 1, 1});
  f.net.rails = 2;
  f.net.rail_of_rank = true;
  f.net.exceptions = {{1, 0.25, "slow", 1}};
  const auto ends = arrivals(direct_all_gather(4), S, f);
  // Two messages each way on each rail, of half of the interface, or an eighth.
  for (const int upper : {2, 3}) {
    EXPECT_NEAR(ends.at({upper, 0}), 4 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({0, upper}), 4 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({upper, 1}), 16 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({1, upper}), 16 * S * kBeta, 0.01 * S * kBeta);
  }
}

// The middle passes half of what the hosts can send, and their ports have time for near messages.
TEST(CostOfNetworks, TheMiddleIsNotThePort) {
  const double S = 8e6;
  MachineModel f = network_of(8);
  f.net.leaves = {0, 0, 0, 0, 1, 1, 1, 1};
  f.net.far = PathParameters{0, f.net.nic / 2, 1};
  const Load load{Collective::all_gather, static_cast<size_t>(S)};
  const auto direct = direct_all_gather(8);
  EXPECT_NEAR(predict(direct, load, f).seconds, 8 * S * kBeta, 0.02 * S * kBeta);
  f.net.far->rate = f.net.nic * 0.9;
  EXPECT_NEAR(predict(direct, load, f).seconds, 7 * S * kBeta, 0.02 * S * kBeta);
}

}  // namespace
}  // namespace ringwood

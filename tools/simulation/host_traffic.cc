#include "tools/simulation/host_traffic.h"

#include <algorithm>
#include <utility>

#include "collectives/tuner/cost/cost_prices.h"

namespace ringwood {
namespace {

// Hosts of leaf switches are near each other or far by where they are, not by how far their numbers
// are apart: near is what all have in common.
MachineModel without_leaves(MachineModel machine) {
  if (machine.net.leaves.empty()) return machine;
  machine.net.leaves.clear();
  machine.net.far.reset();
  return machine;
}

Network network_of_one(const MachineModel& machine, int ranks, const Network& network) {
  NetworkShape shape = network.shape();
  shape.leaf = shape.uplinks = 0;
  MachineModel one = machine;
  one.hosts.assign(static_cast<size_t>(ranks), 0);
  return {one, ranks, shape, {}};
}

}  // namespace

std::optional<HostTraffic> bind_host_traffic(TrafficRequest request, const MachineModel& machine,
                                             const Network& network) {
  const SharedPlacement placement = placement_of(machine, request.n);
  if (!placement->regular() || placement->hosts.count() == 1) return {};
  std::vector<Schedule> first;
  for (const int rank : placement->hosts.ranks[0]) first.push_back(request.build(rank));
  std::optional<HostSymmetry> symmetry = symmetry_of(placement, first, request.build);
  if (!symmetry) return {};
  first.clear();
  const MachineModel near = without_leaves(machine);
  request.symmetry = &*symmetry;
  HostTraffic result{*symmetry, bind_traffic(request, near, network),
                     network_of_one(near, placement->ranks_of_a_host, network), 0};
  if (machine.net.leaves.empty() || !machine.net.far) return result;
  result.far_latency = std::max(0.0, machine.net.far->latency - machine.net.latency);
  if (request.load.agreement) {
    const Prices::Agreement all = Prices(request.load, machine, request.n).agreement();
    result.traffic.agreed = all.agreed;
    result.traffic.agreeing = all.agreeing;
  }
  return result;
}

HostRun run_host(const HostTraffic& traffic, const MachineModel& machine,
                 std::function<void(double)> progress) {
  HostRun run;
  EventsRequest request;
  request.recording = &run.recording;
  request.progress = std::move(progress);
  run.outcome = run_events(traffic.traffic, machine, traffic.network, request);
  const int32_t first_island = traffic.network.island_path(0, 0)[0];
  std::erase_if(run.outcome.links, [&](const LinkUse& use) { return use.link < first_island; });
  return run;
}

}  // namespace ringwood

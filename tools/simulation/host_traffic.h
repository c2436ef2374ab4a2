// The traffic of one host where all hosts do the same (cost/cost_quotient.h), and what happens
// there: the course of events that waves.h carries out on all hosts. Plain values.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tools/simulation/events.h"

namespace ringwood {

// All hosts' messages and steps, on host 0.
struct HostTraffic {
  HostSymmetry symmetry;
  Traffic traffic;
  Network network;         // of host 0 alone; nothing is wrong with it
  double far_latency = 0;  // seconds that a message between leaves takes in addition
};

// Nothing where the hosts are not of one size, or no symmetry of theirs is found in the schedules.
// `network` is that of all ranks; nothing but its shape matters. The machine model has no
// exceptions, and where it knows leaves, far paths are as fast as near ones. Throws as
// bind_traffic().
std::optional<HostTraffic> bind_host_traffic(TrafficRequest request, const MachineModel& machine,
                                             const Network& network);

struct HostRun {
  Outcome outcome;  // its links: only those of islands
  Recording recording;
};
// Without faults; `progress` as in EventsRequest.
HostRun run_host(const HostTraffic& traffic, const MachineModel& machine,
                 std::function<void(double)> progress = {});

}  // namespace ringwood

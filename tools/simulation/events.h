// Simulates every rank of a group, with faults: the cost model's phases of a message
// (cost/message_simulation.h) on a network of links.
//
// Each rank's thread does its jobs in the order of their times; threads, the cores and the memory
// of a host, and each link of the network share their time equally among what uses them, each a
// queue of its own (link_queues.h). The cost is O(log) for each message and link that it passes, so
// some 20 million messages are feasible.
//
// Pure: equal arguments give equal results, bit by bit.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "collectives/tuner/busiest.h"
#include "collectives/tuner/cost/cost.h"
#include "collectives/tuner/machine/machine_model.h"
#include "tools/simulation/faults.h"
#include "tools/simulation/network.h"
#include "tools/simulation/traffic.h"

namespace ringwood {

struct LinkUse {
  int32_t link = 0;  // of the network
  double busy = 0;   // seconds at its full rate
};

struct Outcome {
  double seconds = 0;              // of the slowest rank, from the time when ranks that are not
                                   // late call
  std::vector<double> finish;      // by rank
  std::vector<LinkUse> links;      // the busiest first, kBusiestLinks at most
  Busiest busiest;                 // of all resources, cores and memory included
  std::vector<Interval> timeline;  // in the order of their ends, if wanted
};

inline constexpr size_t kBusiestLinks = 8;

struct EventsRequest {
  const Faults* faults = nullptr;        // of ranks; those of the network are in it. Null: none
  std::span<const int> traced;           // ranks whose steps the timeline has, ascending
  size_t most_intervals = 0;             // of the timeline
  std::function<void(double)> progress;  // called now and then with the part that is done; or empty
};

// All are memory of the caller. Throws Error(invalid_argument) for a fault of a rank that there is
// not, and where steps wait for each other in a cycle.
Outcome run_events(const Traffic& traffic, const MachineModel& machine, const Network& network,
                   const EventsRequest& request = {});

}  // namespace ringwood

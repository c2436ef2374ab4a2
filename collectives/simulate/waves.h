// Simulates every rank of a group in which all hosts do the same, with faults: for schedules of so
// many messages that events.h cannot simulate them one by one.
//
// By a symmetry of the hosts (cost/cost_quotient.h) host 0 stands for all: events.h simulates it
// alone, and what runs there in which order is recorded (host_traffic.h). Without faults that is
// what happens on every host. With faults the recording is carried out once more on all hosts at
// the same time, a delay for each host in place of a time (delays.h): a late rank begins with one;
// what a slow rank does (thread_delays.h), and what passes a slow port or an uplink that many have
// chosen (flow_delays.h), adds to it; and what waits has the largest delay of all that it waits
// for.
//
// So a step costs some nanoseconds a host where there are delays, and nothing where there are none,
// and 10^9 messages are feasible. The order of what a thread does is that of the recording, which
// with faults may differ from host to host; a thread that waits for what is late does the rest in
// the meantime. tests/simulate/waves.cc compares both simulations.
//
// Pure: equal arguments give equal results, bit by bit.
#pragma once

#include <functional>

#include "collectives/simulate/host_traffic.h"

namespace ringwood {

struct WavesRequest {
  const Faults* faults = nullptr;        // as in EventsRequest
  std::function<void(double)> progress;  // likewise
};

// All are memory of the caller; `network` is that of all ranks. Without a time line. Throws as
// run_events().
Outcome run_waves(const HostTraffic& traffic, const HostRun& run, const Network& network,
                  const WavesRequest& request = {});

}  // namespace ringwood

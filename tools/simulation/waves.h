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
// the meantime. tests/simulation/waves.cc compares both simulations.
//
// What that misses: with a fault, messages come before their turn of the recording, and share ports
// and threads with those that are waited for. Against events.h, 64 ranks on hosts of 8, 64 KiB to
// 64 MiB: with one port at a quarter of its rate rows with n messages a rank are up to 26 % too
// low, all_reduce `direct` 34 %; others, which events.h can simulate at any size, 35 %; with a late
// rank up to 29 %. And of a slow rank what ends at the same time in the recording is spread in
// time: `direct` and `pairwise` with blocks of 16 KiB are up to 45 % too high.
//
// What is busiest is what is so on host 0 without faults, or a link with them; a slow rank's thread
// is not looked at.
//
// Pure: equal arguments give equal results, bit by bit.
#pragma once

#include <functional>

#include "tools/simulation/host_traffic.h"

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

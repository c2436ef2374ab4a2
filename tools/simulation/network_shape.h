// What the network of a simulation is made of (network.h). Plain values.
#pragma once

#include <cstdint>

namespace ringwood {

enum class RailUse : uint8_t { striped, by_rank };

struct NetworkShape {
  int rails = 1;
  RailUse use = RailUse::striped;
  int leaf = 0;     // hosts of a leaf switch; 0: a core without limits
  int uplinks = 0;  // of a leaf to each plane of spines
  // Leaves whose spines are a pod, and the uplinks of a pod to each plane of the core above. 0:
  // all leaves are below the same spines.
  int pod = 0, pod_uplinks = 0;
  // Of two ranks on each rail: flows of their own to the switches, over which a message that is
  // cut is spread (RINGWOOD_VERBS_QPS).
  int queue_pairs = 1;
  // Switches spread each message over all uplinks that are alive, and do not choose one.
  bool adaptive = false;
  // What a host can send to one other host, as a fraction of its whole interface; 0: all of it.
  double pair = 0;
  uint64_t seed = 1;
  bool operator==(const NetworkShape&) const = default;
};

}  // namespace ringwood

// `ringwood simulate --replay`: the calls of a recorded run, simulated one after another.
#pragma once

#include "tools/replay/replay_report.h"
#include "tools/simulate/simulate_like.h"
#include "tools/simulate/simulate_rows.h"

namespace ringwood::tools {

// The hosts and parameters by which the run's ranks chose, but without what was known there of slow
// hosts, so that what they cost is seen, as in `ringwood trace`.
LikeCluster cluster_of(const RecordedRun& run);

// `options`: the group, its network and its faults; of a call only `algorithm` is looked at.
// `placed`: its ranks are where they were recorded, so each call runs as it did; else as a
// communicator of that group would choose. The run is memory of the caller.
ReplayReport simulate_replay(const SimulateOptions& options, const RecordedRun& run, bool placed,
                             const Progress& progress);

}  // namespace ringwood::tools

// What the ranks of a running job have recorded so far, without a file and without its end.
//
// The job is found as by `ringwood top`, and its ranks are reached alike: those of this host at
// their own status sockets, others by way of rank 0 (transports/control/status/trace_messages.h).
// All of them make their texts at about the same time, and are then read one after another.
#pragma once

#include <vector>

#include "tools/top/job_watcher.h"
#include "tools/trace/dumps.h"

namespace ringwood::tools {

// One for each of its groups of which a rank has told its records. On ranks that have not there is
// a remark. Throws what JobWatcher does; Error(unsupported) if the job is of a version that cannot
// tell its records, Error(peer_lost) if it has ended, and Error(timeout) or
// Error(network) if no rank answers as it should.
std::vector<TracedGroup> read_live(const JobChoice& choice, const DumpsProgress& tell = {});

}  // namespace ringwood::tools

// `ringwood perf --replay`: the calls of a recorded run, in their order, on this group of ranks.
//
// Blocking calls, one after another, each with the algorithm that this group chooses; calls that
// overlapped follow one another. All work on the same two buffers, which contain zeros. Whole
// buffers keep their sizes, whatever the number of ranks. A call lasts from when its last rank
// calls it until its last rank has its result, as in the record (recorded_calls.h).
#pragma once

#include "collectives/communicator.h"
#include "tools/perf/perf.h"
#include "tools/replay/recorded_calls.h"

namespace CLI {
class App;
}

namespace ringwood::tools {

void declare_replay_options(CLI::App& command, ReplayOptions& replay);
// Throws Error(invalid_argument) for an option that means nothing beside --replay.
void require_alone(const CLI::App& command);

// Collective. `run` is looked at on rank 0 alone, which writes the report. False if a result was
// wrong or a demand was not met, which is then said on standard error.
bool run_replay(const PerfOptions& perf, const RecordedRun& run, double tolerance,
                Communicator& group);

}  // namespace ringwood::tools

// The time line of a simulated row in the trace event format of Chrome, which Perfetto opens: one
// process for each host, one thread for each rank, and more where steps of a rank overlap.
#pragma once

#include <string>

#include "tools/simulate/simulate_rows.h"

namespace ringwood::tools {

// At most kMaxIntervals steps, those that end first, of the slowest and the first ranks.
std::string print_trace(const SimulateOptions& options, const Trace& trace);

}  // namespace ringwood::tools

// `ringwood perf -N 0`: the table again and again until it is stopped, for faults that come once
// an hour.
//
// Each line is one interval of one operation and size, which take turns. In it operations follow
// each other without a barrier, each timed by itself, each with the time of its slowest rank; at
// its end the results of one more are checked, and the counters of all hosts are read. Needs no
// more memory with time. SIGINT, SIGTERM and SIGHUP, at any rank, end it with the totals.
#pragma once

#include "tools/perf/perf.h"
#include "tools/perf/soak/soak_report.h"

namespace ringwood::tools {

// Throws Error(invalid_argument) for options that mean nothing here.
void validate_soak(const PerfOptions& perf);

// Collective. `report`: rank 0's, elsewhere null. False if a result was wrong or a demand was not
// met. Throws the group's Error, after the totals of what was measured until then.
bool run_soak(const PerfOptions& perf, double tolerance, Communicator& group, SoakReport* report);

}  // namespace ringwood::tools

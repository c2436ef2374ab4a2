// `ringwood perf` on one rank: every operation, type and size of the options, in our own format.
#pragma once

#include "collectives/communicator.h"
#include "tools/perf/perf.h"
#include "tools/perf/perf_report.h"

namespace ringwood::tools {

// Collective. `report`: where the rows go, on one rank; null on the others. False if a result was
// wrong or a demand was not met, which is then said on standard error.
bool measure_operations(const PerfOptions& perf, double tolerance, Communicator& group,
                        Report* report);

}  // namespace ringwood::tools

// `ringwood perf --format nccl-tests`: the sweep of nccl-tests on one rank.
#pragma once

#include "collectives/communicator.h"
#include "tools/perf/perf.h"

namespace ringwood::tools {

// Throws Error(invalid_argument) for what this format cannot say.
void validate_nccl_tests(const PerfOptions& perf, int ranks);

// Collective. Rank 0 writes to standard output. False if a result was wrong, or the mean bandwidth
// is below 0.9 of NCCL_TESTS_MIN_BW.
bool run_nccl_tests(const PerfOptions& perf, double tolerance, Communicator& group);

}  // namespace ringwood::tools

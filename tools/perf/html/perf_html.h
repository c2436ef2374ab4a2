// The report of `ringwood perf --html`: what was measured beside what was predicted, what the
// machine can do at most, and what others or earlier runs have reached.
#pragma once

#include <vector>

#include "tools/perf/perf.h"
#include "tools/perf/perf_report.h"

namespace ringwood::tools {

// Throws Error(invalid_argument) if the file cannot be written, or an earlier result not be read.
void write_html(const PerfOptions& perf, const std::vector<Row>& rows, const RunFacts& facts,
                int ranks);

}  // namespace ringwood::tools

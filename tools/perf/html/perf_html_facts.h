// The parts of the report of `ringwood perf --html` that are about the whole run: what came out,
// and what the networks, the memory and the links did.
#pragma once

#include <string>
#include <vector>

#include "tools/matrix/matrix.h"
#include "tools/perf/html/perf_html_verdicts.h"
#include "tools/perf/perf_report.h"
#include "tools/report/html_report.h"

namespace ringwood::tools {

// The best bandwidth, and what to look at first: wrong results, `facts.failed`, the findings; where
// there is none of these, `nothing`.
void add_verdicts(HtmlReport& report, const std::vector<Row>& rows, const RunFacts& facts,
                  const std::vector<PerfFinding>& findings, const std::string& nothing);
void add_counters(HtmlReport& report, const RunFacts& facts);
void add_limits(HtmlReport& report, const RunFacts& facts);

// What `ringwood matrix --json` has measured. Throws Error(invalid_argument), naming the file.
Matrix read_matrix(const std::string& file);
void add_matrix(HtmlReport& report, const Matrix& matrix);

}  // namespace ringwood::tools

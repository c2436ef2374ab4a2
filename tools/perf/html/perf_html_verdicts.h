// What stands out in the results of `ringwood perf`, in words: what the report says first.
//
// A finding is one sentence about one sweep (perf_sweeps.h): the collective, the sizes, the two
// figures that do not go together, at the size where they do least, and the command that leads on.
// Where a sweep is compared over algorithms, what a program gets is judged (Sweep::taken()). Runs
// of one rank are not judged: nothing is sent.
//
// Pure: nothing is read but the arguments. Times are microseconds, bandwidths GB/s (1e9 bytes).
#pragma once

#include <string>
#include <vector>

#include "tools/perf/html/perf_compare.h"
#include "tools/perf/perf_report.h"

namespace ringwood::tools {

// In the order in which they are told: first what puts the other figures in doubt, then what is
// known to be faster, then what has to be sought.
enum class Symptom {
  spread,             // one of 100 operations takes 5 times the median or more, of 20 at least
  late_rank,          // ranks come apart, by 20 % of the median time and more than is uncertain
  other_algorithm,    // takes 0.9 of the choice's time, at two sizes or by 10 us at one
  earlier_results,    // --compare: likewise at two sizes, or at one and faster at each
  falling_bandwidth,  // the last of four or more sizes has 0.8 of the peak, and might have more
  prediction,         // 1.5 times off, either way, at two sizes that follow each other
};

struct PerfFinding {
  Symptom symptom;
  std::string sweep;     // its name
  double factor = 1;     // between the two figures; the larger, the earlier among its like
  std::string sentence;  // plain text
};

// How the run was made, for the rules and for the commands.
struct RunShape {
  int hosts = 1;
  bool touched = false;                 // a barrier before each operation: no rank can run ahead
  bool shared = false;                  // buffers that the ranks of a host read in place
  std::vector<std::string> transports;  // that were demanded; empty: none were
};

// Most important first. Of more than three sweeps with the same symptom the three worst have a
// sentence each, and the last sentence of that symptom counts the others.
std::vector<PerfFinding> findings_of(const std::vector<Row>& rows,
                                     const std::vector<EarlierResults>& earlier,
                                     const RunShape& shape);

// Where there is no finding: that nothing stands out, and what was looked at.
std::string nothing_found(const std::vector<Row>& rows, const std::vector<EarlierResults>& earlier);

}  // namespace ringwood::tools

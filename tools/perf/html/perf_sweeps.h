// The rows of `ringwood perf` by what they are of: one collective, type, operation and root at
// several sizes, which is one plot of the report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/perf/html/perf_compare.h"
#include "tools/perf/perf_report.h"

namespace ringwood::tools {

// The rows are those that sweeps_of() was given, in the order in which they were measured.
struct Sweep {
  std::string name;  // "all_reduce, float32, sum"
  Measured of;
  std::vector<const Row*> rows;
  bool compared = false;  // several algorithms are

  // By line of a plot: the algorithm where several are compared, else one.
  std::vector<std::pair<std::string, std::vector<const Row*>>> lines() const;
  // What the communicator chooses, of those that are compared; else nothing.
  std::vector<const Row*> chosen() const;
  // One row of each size, by size: what a program gets. Where algorithms are compared it is the
  // chosen one, or the quickest where the chosen one is not among them.
  std::vector<const Row*> taken() const;
};

// `rows` must outlive the result.
std::vector<Sweep> sweeps_of(const std::vector<Row>& rows);

// "ring", or "ring, segmented".
std::string algorithm_text(const Row& row);
std::string size_text(double bytes);  // "64 KiB"

}  // namespace ringwood::tools

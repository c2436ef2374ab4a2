// What `ringwood simulate` prints: a table with nccl-tests' columns, or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/simulate/simulate_rows.h"

namespace ringwood::tools {

// The row that takes least; null if none is simulated.
const SimulatedRow* best_of(const std::vector<SimulatedRow>& rows, bool with_faults);

// GB/s, as nccl-tests has them.
struct Bandwidth {
  double algorithm = 0, bus = 0;
};
Bandwidth bandwidth_of(const SimulateOptions& options, double seconds);

// The row that a communicator takes, or, where it was not simulated, the best one. Null if none is.
const SimulatedRow* taken_of(const std::vector<SimulatedRow>& rows);

// One sentence: what is best, and what the faults change.
std::string advice(const SimulateOptions& options, const std::vector<SimulatedRow>& rows);
// How many times as long the faults make it; "-" where it takes no time without them.
std::string factor_of(const SimulatedRow& row);
// Rails, leaves, islands: what the simulated network is.
std::string network_line(const SimulateOptions& options);

std::string print_table(const SimulateOptions& options, const std::vector<SimulatedRow>& rows);
std::string print_json(const SimulateOptions& options, const std::vector<SimulatedRow>& rows);

}  // namespace ringwood::tools

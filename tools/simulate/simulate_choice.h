// Which rows a table of `ringwood simulate` has, and which one a communicator takes.
#pragma once

#include <vector>

#include "tools/simulate/simulate_rows.h"

namespace ringwood::tools {

// The rows that the options ask for, the chosen one first, then by estimate; each also in the wire
// formats that the knobs' tolerance allows. Where no row is asked for, these are the sensible ones,
// and that which would be taken if slow ports were known. What is chosen is what a communicator
// with these knobs takes, without a tuning file. Throws Error(invalid_argument) for a name of the
// options or of the knobs that is not in the table or does not accept the group, and where the
// user's tuner refuses it.
std::vector<SimulatedRow> rows_of(const SimulateOptions& options);

}  // namespace ringwood::tools

// Bus bandwidth by number of ranks, a line for each algorithm, as a picture.
#pragma once

#include <string>
#include <vector>

#include "tools/simulate/simulate_rows.h"

namespace ringwood::tools {

struct ScalePoint {
  SimulateOptions options;
  std::vector<SimulatedRow> rows;
};

// With the faults where there are some. Looks like the pictures of bench/peers.
std::string draw_scale(const std::vector<ScalePoint>& points);

}  // namespace ringwood::tools

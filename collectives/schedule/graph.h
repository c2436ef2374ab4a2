// Which steps must wait for which: derived from a schedule, never written by its author.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// Compressed: the successors of step i are successor[offset[i] .. offset[i+1]), ascending,
// without duplicates. Transitively implied write-write and read edges may be omitted;
// reachability is exact.
struct Graph {
  std::vector<int32_t> offset;
  std::vector<int32_t> successor;
  std::vector<int32_t> predecessors;  // number of direct predecessors of each step
};
Graph derive(const Schedule& schedule);

}  // namespace ringwood

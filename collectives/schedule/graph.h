// What must wait for what: derived from a schedule, never written by its author.
//
// Within a rank, step j depends on an earlier step i when both touch a chunk and at least one
// writes it (read-after-write, write-after-read, write-after-write). Link order (sends to one peer
// in list order, receives from one peer in list order) is implied by the Link contract and is not
// an edge here.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// Compressed: the successors of step i are successor[offset[i] .. offset[i+1]), ascending, without
// duplicates. Transitively implied write-write and read edges may be left out; the reachability is
// exact.
struct Graph {
  std::vector<int32_t> offset;
  std::vector<int32_t> successor;
  std::vector<int32_t> predecessors;  // number of direct predecessors of each step
};
Graph derive(const Schedule& schedule);

}  // namespace ringwood

// The bounds of a schedule's cost (cost_model.h) from few ranks' schedules: for groups in which all
// ranks together have too many steps to be bound, let alone simulated.
//
//   resource    All that the ranks of a few hosts do, counted step by step: the hosts of rank 0 and
//               of the last rank, the smallest, the largest and one in the middle. Of many ranks on
//               a host its first and its last one are counted, and some between that stand for the
//               others.
//   path        A chain of steps that wait for each other, followed backwards from the last receive
//               of some ranks: from a receive to its send at the peer, from a send to the last step
//               before it that writes what it reads. One that is too long to be followed to its
//               beginning is taken to go on as it did.
//
// So they are no bounds in the strict sense; tests/cost/cost_sketch.cc says how near they come.
// Private buffers and no wire format are assumed. What is built is counted, not timed, and kept
// only up to a limit, so time and memory are bounded too. Pure.
#pragma once

#include <functional>

#include "collectives/cost/cost_model.h"

namespace ringwood {

// Returns the schedule of one rank; the same each time.
using BuildRank = std::function<Schedule(int rank)>;

CostBounds sketch_of(const BuildRank& build, int n, const Load& load, const MachineModel& machine);

}  // namespace ringwood

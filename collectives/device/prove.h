// The proof of a device's programs, independent of how they were made.
//
// Programs are deterministic and their counters only grow, so one execution stands for all: the
// same waits meet the same posts in every other. Vector clocks over it order the accesses in all of
// them. Proved is that
// 1. every program comes to its end (in order: only waits and packets that have not come stop it);
// 2. every two accesses to a chunk of which one writes are ordered, and with each rank's end too,
//    after which its memory is the user's again;
// 3. every chunk of the user's holds the expression that the schedules leave there
//    (schedule/interpret.h): the same operands, summed in the same order.
//
// It holds whether the sums of rows (Ref::row) lie in their chunks or elsewhere; for all sizes and
// types; and for one operation; what one operation does to the next is
// the protocol's (the hello and its parity). Pure; any thread. About steps times ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/device/program.h"

namespace ringwood::device {

// A sentence about the first flaw; none: proved. Precondition: the schedules are verified, and
// those that were lowered. `hellos`: false leaves them out, for tests of what relies on them.
std::optional<std::string> prove(const std::vector<Schedule>& all, const Lowered& lowered,
                                 bool hellos = true);

}  // namespace ringwood::device

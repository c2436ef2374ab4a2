// Passes of a program that become one, so that data are read and written once.
//
// Joined are, of neighbours with only signals between them,
// - a sum that goes on from what the one before it wrote: "a <- a b; a <- a c" is "a <- a b c";
// - one that stores what the one before it wrote elsewhere too, or stores the same elsewhere;
// - one that reads scratch which the one before it only copied.
// Each element still depends on the same elements, in the same order: sums with different
// destinations are never joined, since 16-bit types would be rounded once instead of twice. Waits
// between the two come before both, as far as `joining` allows it, posts come after them; so a
// joined program may be wrong or a deadlock, and is proved afterwards.
#pragma once

#include <vector>

#include "collectives/device/lower.h"

namespace ringwood::device {

// Changes the programs. Pure.
void join_passes(const std::vector<Schedule>& all, Joining joining, Lowered& lowered);

}  // namespace ringwood::device

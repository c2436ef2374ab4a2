// Rows of additions that more than one pass carries out: other passes lie between.
//
// A row is rounded once (plan.h), so what its passes hand on is no number of the type but the sum:
// Ref::row names it. Where the type is summed in itself, that is the place of the row in memory.
#pragma once

#include "collectives/device/program.h"

namespace ringwood::device {

// Names the rows' sums in the programs; true: there are some. Precondition: passes are joined.
// Pure.
bool split_rows(Lowered& lowered);

}  // namespace ringwood::device

// Rows: reductions into one span, one after the other, with nothing else touching it in between.
//
// Within a row a sum may be kept in a wider type than the one that travels, and is rounded at its
// end (plan.h). Which reductions are in a row follows from the schedule alone. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct RowPlace {
  int32_t row = -1;  // -1: no reduction
  bool first = false, last = false;
};
// By step. A reduction by itself is a row of one.
std::vector<RowPlace> rows_of(const Schedule& schedule);

}  // namespace ringwood

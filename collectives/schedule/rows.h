// Rows: consecutive reductions into one span that no other step touches in between.
//
// Within a row a sum may be kept in a wider type than that of the messages; it is rounded at the
// end of the row (plan.h). The schedule alone determines which reductions are in a row. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct RowPlace {
  int32_t row = -1;  // -1: no reduction
  bool first = false, last = false;
};
// By step. A single reduction is a row of one.
std::vector<RowPlace> rows_of(const Schedule& schedule);

}  // namespace ringwood

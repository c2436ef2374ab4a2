// Accumulations: consecutive reductions into one span that no other step touches in between.
//
// Within an accumulation a sum may be kept in a wider type than that of the messages; it is rounded
// at the end of the accumulation (plan.h). The schedule alone determines which reductions belong to
// one. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct AccumulationPlace {
  int32_t accumulation = -1;  // its number in the schedule; -1: no reduction
  bool first = false, last = false;
};
// By step. A single reduction is an accumulation of one addition.
std::vector<AccumulationPlace> accumulations_of(const Schedule& schedule);

}  // namespace ringwood

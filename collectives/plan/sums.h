// What the reductions of a group's schedules add: whose operands, and which reductions
// complete a sum.
//
// 1. AVG and PREMUL_SUM need it. Their operands are scaled when they are added for the first time,
//    and the reduction that completes an average's sum divides it (accumulate.h), so that neither
//    takes a pass or a rounding of its own.
// 2. 16- and 8-bit floats need it. They are rounded once for each accumulation (accumulations.h),
//    so one expression has one value on all ranks only if all split it into the same accumulations.
//    verify() proves the expressions and knows no accumulations; here these are part of them,
//    whether the schedules are a chosen row of the table, one that the user named, or none of the
//    table's. Where ranks differ (one adds two operands in one accumulation, another reads the sum
//    in between), every addition is rounded by itself, which verify() covers. No row of the table
//    is like that.
//
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

// A reduction, dst op= src.
struct SumStep {
  // The rank whose own numbers an operand is, as its user passed them; -1: a sum of some.
  int32_t dst = -1, src = -1;
  bool completes = false;  // the sum of all ranks
  bool operator==(const SumStep&) const = default;
};

struct Sums {
  // All ranks that end with a sum have added it in the same accumulations.
  bool accumulations_agree = true;
  // Every sum of all ranks is added in one accumulation from the ranks' own numbers, never from
  // partial sums.
  bool whole = true;
  // The chunks of a span differ in what their reduction adds, so the schedules were split into
  // single chunks, as with_roundings() does for no hosts (wire_schedule.h).
  bool apart = false;
  std::vector<std::vector<SumStep>> steps;  // by rank; of its reductions, in order
};
// Of more steps of all ranks, as their schedules have them, sums are not traced, at about 0.3 us
// and 50 bytes each: then there are no AVG and PREMUL_SUM, and of other operations the rows of the
// table are assumed to behave as with fewer ranks, where tests show that they agree.
inline constexpr size_t kMaxTracedSteps = 4 << 20;

// `all`: verified schedules of a reducing collective.
Sums trace_sums(Collective collective, GroupSchedules all);
// Sums::accumulations_agree alone, without what each step adds. Memory: 1 byte for each step of a
// distinct list, and what the interpreter has (interpret.h).
bool accumulations_agree(Collective collective, GroupSchedules all);

}  // namespace ringwood

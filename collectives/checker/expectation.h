// What a plan's execution must leave in the user's memory: the proved schedules, read "as if
// sequential", on symbols (symbols.h). Part of the checker; independent of the passes.
//
// The definitions, for a chunk and a segment of it:
// - An accumulation is a maximal sequence of additions into one span that no other step touches in
//   between. Floats of 16 and 8 bits are rounded at its end, or at each addition where the plans
//   say so.
// - AVG and PREMUL_SUM: a rank's own numbers are scaled when they are added first; AVG is divided
//   by the addition that completes the sum of all ranks.
// - A wire format changes what is sent between hosts. In an all_reduce a value that is sent so
//   anywhere is used in that form everywhere.
#pragma once

#include <vector>

#include "collectives/checker/checker_parts.h"
#include "collectives/checker/symbols.h"

namespace ringwood {

struct Expectation {
  std::vector<std::vector<SymbolMemory>> memory;  // by rank and user's buffer
  PlanFlaw flaw;  // of what the plans state about the sums of all ranks
};
Expectation expect(const PlanSet& set, Symbols& symbols);

}  // namespace ringwood

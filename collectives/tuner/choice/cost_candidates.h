// The candidates for a collective call, and what each would cost: rows of the table of algorithms
// times a few segment counts.
//
// The search has a budget. Candidates are simulated in the order of their lower bounds, those of
// one segment first; one whose bound is above the best time found cannot win and is not simulated,
// nor is its schedule bound where what crosses a host's interfaces says so already; and once
// kMaxWork is used up the rest are judged by estimate. Those that may be chosen then have their
// segments simulated, as many as a second budget allows, which is larger where the operation takes
// long itself (judge.h, refine()); and where the best time turns out longer, those that it had
// beaten are judged after all. What is simulated for a row, in place of all
// ranks where they are many, is said by its profile (row_profile.h). Budgets are counted, not
// timed, so every rank makes the same choice. Pure.
#pragma once

#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/candidate.h"
#include "collectives/tuner/cost/cost.h"

namespace ringwood {

// Of HostQueues::work(), for all exact candidates of a query together, as much for all that are
// in wire formats, and for each row.
inline constexpr size_t kMaxWork = 210000, kMaxWorkEach = 90000;
// Where a host is not like the others, one cannot stand for all: so many times as much.
inline constexpr size_t kWorkWithExceptions = 4;
inline size_t work_times(const MachineModel& machine) {
  return machine.net.exceptions.empty() ? 1 : kWorkWithExceptions;
}
// Of all ranks together, where all are simulated.
inline constexpr size_t kMaxSteps = 20000;
inline constexpr int kMaxSegments = 256;

class RowProfiles;

struct CandidateQuery {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;
  size_t element = 4;
  int n = 1;
  std::vector<const AlgorithmRow*> rows;  // in order of preference among equals
  // Which rows may round a sum, or wrap it, on its way (sum_roundings()): all of them alike; those
  // that do it more than once per level (in a host, between hosts) only where they are so much
  // faster; or only those that do it once, if there are any.
  enum class Rounding { free, seldom, once };
  Rounding rounding = Rounding::free;
  // Each rank has to find out which of its additions complete a sum (sums.h): only rows of so few
  // steps that this can be traced, if there are any.
  bool traced = false;
  // Above 0: rows may send in a wire format between hosts where all ranks still end with the same
  // bits and their error is within it (wire.h), from kMinEncoded bytes up.
  double tolerance = 0;
  int segments = 0;  // 0: as `segment_bytes` suggests
  size_t segment_bytes = size_t{512} << 10;
  // Also predict candidates that cannot win any more; the choice remains the same.
  bool all = false;
};
// One is `chosen`, as decide.h says; where that leaves the order, the first row and the fewest
// segments (encoded: segments of `segment_bytes`). The result lists exact candidates before encoded
// ones, then in the order of the rows, segments ascending.
// `profiles`: of this machine model, for as many ranks.
std::vector<Candidate> cost_candidates(const CandidateQuery& query, const MachineModel& machine,
                                       RowProfiles& profiles);

}  // namespace ringwood

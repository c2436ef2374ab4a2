// The candidates for a collective call, and what each would cost: rows of the table of algorithms
// times a few numbers of segments.
//
// Finding the cheapest has a budget: candidates are simulated in the order of their lower bounds,
// those whose bound is above the best found cannot win and are not, and when kMaxWork is used up
// the rest are judged by estimate. A row with more than kMaxSteps steps in all ranks together is
// judged by a sketch of its bounds from few ranks' schedules (cost_sketch.h), and not encoded. All
// of it is counted, not timed, so every rank comes to the same answer. Pure.
#pragma once

#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/candidate.h"
#include "collectives/cost/cost.h"
#include "collectives/kernels/reduce.h"
#include "collectives/kernels/wire.h"

namespace ringwood {

// Of FairShare::work(), for all candidates of a query together, and for each.
inline constexpr size_t kMaxWork = 120000, kMaxWorkEach = 40000;
inline constexpr size_t kMaxSteps = 20000;
inline constexpr int kMaxSimulated = 4096;  // ranks, however few steps they have
inline constexpr int kMaxSegments = 256;

struct CandidateQuery {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;
  size_t element = 4;
  int n = 1;
  std::vector<const AlgorithmRow*> rows;  // in order of preference among equals
  bool adds_once = false;  // wanted: each element added up in one go by one owner (adds_once())
  // Above 0: rows may send in a wire format between hosts where all ranks still end with the same
  // bits and their error is within it (wire.h), from kMinEncoded bytes up.
  double tolerance = 0;
  int segments = 0;  // 0: those that `segment_bytes` suggests
  size_t segment_bytes = size_t{512} << 10;
  size_t most_steps = kMaxSteps;  // of a row that is simulated
  bool all = false;  // also predict those that cannot win any more; the choice stays the same
};
// Whether buffers are shared is known to each rank alone, so it cannot decide. A candidate's regret
// is how many times longer it takes than the best one, for private or for shared buffers, whichever
// is more; the one with the least regret is `chosen`. Where the two kinds cost alike that is the
// cheapest. Among those within 5 % of it, which the model cannot tell apart, the one with the least
// work for its busiest resource (within 5 %), the first row, the fewest segments (encoded: segments
// of `segment_bytes`). Exact ones before encoded ones, then in the order of the rows, segments
// ascending.
std::vector<Candidate> weigh(const CandidateQuery& query, const MachineModel& machine);

// True if no partial sum is ever added to anything again: every element is then added up in one row
// of additions, with one rounding at its end. `schedules` of all ranks, verified.
bool adds_once(const std::vector<Schedule>& schedules);

}  // namespace ringwood

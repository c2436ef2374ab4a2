#include "collectives/choice/judge.h"

#include <algorithm>

#include "collectives/plan/protocol.h"

namespace ringwood {
namespace {

// The segments of a pipeline are alike once it is filled, so of many segments only these
// are simulated.
constexpr size_t kFewerSegments = 3, kSomeSegments = 6;
// Up to this many steps, all segments are simulated.
constexpr size_t kWholeSteps = 1500;
// The cost of binding a step, in units of FairShare::work().
constexpr size_t kWorkOfStep = 4;

}  // namespace

void CostJudge::enter(const BuiltRow& built) {
  work_ += kWorkOfStep * built.steps;
  sketched_ = sketched_ || built.schedules.empty();
}

bool CostJudge::may_zero_copy() const {
  return machine_.staged && static_cast<double>(query_.bytes) >= machine_.zero_copy &&
         !all_apart(machine_.hosts, query_.n, machine_.loopback);
}

Prediction CostJudge::simulate(const BuiltRow& built, int segment_count, size_t bytes,
                               bool zero_copy) {
  const bool one_round = built.one_round && segment_count == 1;
  Prediction p = predict(built.schedules, load_of(query_, built, bytes, one_round, zero_copy),
                         machine_, segment_count);
  work_ += p.work + kWorkOfStep * built.steps * static_cast<size_t>(segment_count);
  return p;
}

const Prediction& CostJudge::single(BuiltRow& built) {
  if (!built.single) built.single = simulate(built, 1, query_.bytes, false);
  return *built.single;
}

CostJudge::Times CostJudge::judge(BuiltRow& built, int segment_count, bool may_simulate) {
  Prediction p;
  p.simulated = false;
  if (may_simulate && !built.schedules.empty())
    p = segment_count == 1 ? single(built) : in_segments(built, segment_count, false);
  Times times;
  times.simulated = p.simulated;
  times.seconds = times.zero_copy_seconds =
      p.simulated ? p.seconds : estimate(built, segment_count);
  if (!p.simulated || !may_zero_copy() || built.steps > kWholeSteps) return times;
  const Prediction zero_copy = in_segments(built, segment_count, true);
  if (zero_copy.simulated) times.zero_copy_seconds = zero_copy.seconds;
  return times;
}

// Of many segments some are simulated; the others are taken to last as long each.
Prediction CostJudge::in_segments(const BuiltRow& built, int segment_count, bool zero_copy) {
  const auto count = static_cast<size_t>(segment_count);
  if (count == 1 || built.steps * count <= kWholeSteps)
    return simulate(built, segment_count, query_.bytes, zero_copy);
  Prediction p;
  p.simulated = false;
  if (built.steps * kSomeSegments > kMaxSteps) return p;
  const Prediction fewer =
      simulate(built, kFewerSegments, query_.bytes / count * kFewerSegments, zero_copy);
  p = simulate(built, kSomeSegments, query_.bytes / count * kSomeSegments, zero_copy);
  const double each = (p.seconds - fewer.seconds) / (kSomeSegments - kFewerSegments);
  p.seconds += std::max(0.0, each) * (static_cast<double>(count) - kSomeSegments);
  p.simulated = p.simulated && fewer.simulated;
  return p;
}

// Estimates are close to the lower bounds. So that they do not win by that, each is scaled by how
// far the simulations of its row were above their bounds. Beside sketches, segments are scaled as
// the sketches are: the ratio for one segment says nothing about a pipeline.
double CostJudge::estimate(BuiltRow& built, int count) {
  constexpr double kUnknown = 1.25;
  const CostBounds& b = built.bounds;
  if (built.schedules.empty() || (sketched_ && count > 1)) return kUnknown * b.estimate(count);
  double off = kUnknown;
  if ((built.single || within_budget()) && single(built).simulated)
    off = built.single->seconds / std::max(1e-12, b.estimate());
  return off * (count == 1 ? b.estimate() : std::max(b.resource + b.latencies, b.path / count));
}

}  // namespace ringwood

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
// Up to this many, shared buffers are simulated, too.
constexpr size_t kSharedSteps = 4096;
// The cost of binding a step, in units of FairShare::work().
constexpr size_t kWorkOfStep = 4;

}  // namespace

void CostJudge::enter(const BuiltRow& built) { work_ += kWorkOfStep * built.steps; }

bool CostJudge::may_zero_copy() const {
  return machine_.staged && static_cast<double>(query_.bytes) >= machine_.zero_copy &&
         !all_apart(machine_.hosts, query_.n, machine_.loopback);
}

// The time is a weighted sum of the samples'; but what the busiest resource has to do is known.
Prediction CostJudge::simulate(BuiltRow& built, int segment_count, size_t bytes, bool zero_copy) {
  const bool one_round = built.one_round && segment_count == 1;
  Prediction p;
  for (const RowSample& s : built.samples()) {
    const Load load = load_of(query_, built, s, bytes, one_round, zero_copy);
    const Prediction of_sample =
        predict(model_of(s, segment_count, load), load, s.placement->machine);
    built.work += of_sample.work;
    work_ += of_sample.work + kWorkOfStep * s.steps * static_cast<size_t>(segment_count);
    p.simulated = p.simulated && of_sample.simulated;
    p.seconds += s.weight * of_sample.seconds;
    if (!p.simulated) break;
  }
  built.too_long = built.too_long || !p.simulated;
  return p;
}

const Prediction& CostJudge::single(BuiltRow& built) {
  if (!built.single) built.single = simulate(built, 1, query_.bytes, false);
  return *built.single;
}

CostJudge::Times CostJudge::judge(BuiltRow& built, int segment_count, bool may_simulate) {
  Prediction p;
  p.simulated = false;
  if (may_simulate && !built.samples().empty()) {
    // One segment first: the least work, and what it says helps to estimate the others.
    p = single(built);
    if (segment_count > 1) {
      p.simulated = false;
      if (!built.too_long) p = in_segments(built, segment_count, false);
    }
  }
  Times times;
  times.simulated = p.simulated;
  times.extended = !built.profile->direct();
  if (p.simulated && times.extended) p.seconds = std::max(p.seconds, built.bounds.resource);
  times.seconds = times.zero_copy_seconds =
      p.simulated ? p.seconds : estimate(built, segment_count);
  if (!p.simulated || !may_zero_copy() || built.steps > kSharedSteps) return times;
  const Prediction zero_copy = in_segments(built, segment_count, true);
  if (zero_copy.simulated)
    times.zero_copy_seconds = std::max(zero_copy.seconds, built.bounds.latencies);
  return times;
}

// Of many segments some are simulated; the others are taken to last as long each.
Prediction CostJudge::in_segments(BuiltRow& built, int segment_count, bool zero_copy) {
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
// far the simulations of its row were above their bounds.
double CostJudge::estimate(BuiltRow& built, int count) {
  constexpr double kUnknown = 1.25;
  const CostBounds& b = built.bounds;
  if (built.samples().empty()) return kUnknown * b.estimate(count);
  double off = kUnknown;
  if ((built.single || within_budget()) && single(built).simulated)
    off = built.single->seconds / std::max(1e-12, b.estimate());
  return off * b.estimate(count);
}

}  // namespace ringwood

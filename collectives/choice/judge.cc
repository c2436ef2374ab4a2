#include "collectives/choice/judge.h"

#include <algorithm>

#include "collectives/plan/protocol.h"

namespace ringwood {
namespace {

// A pipeline's lanes are alike once it is filled, so that of many only these are simulated.
constexpr size_t kFewerLanes = 3, kSomeLanes = 6;
// Up to this many steps all lanes are.
constexpr size_t kWholeSteps = 1500;
// What it takes to bind a step, in units of FairShare::work().
constexpr size_t kWorkOfStep = 4;

}  // namespace

void CostJudge::enter(const BuiltRow& built) {
  work_ += kWorkOfStep * built.steps;
  sketched_ = sketched_ || built.schedules.empty();
}

bool CostJudge::may_lend() const {
  return fabric_.staged && static_cast<double>(query_.bytes) >= fabric_.lent &&
         !all_apart(fabric_.hosts, query_.n, fabric_.loopback);
}

Prediction CostJudge::simulate(const BuiltRow& built, int lane_count, size_t bytes, bool lent) {
  const bool one_round = built.one_round && lane_count == 1;
  Prediction p =
      predict(built.schedules, load_of(query_, built, bytes, one_round, lent), fabric_, lane_count);
  work_ += p.work + kWorkOfStep * built.steps * static_cast<size_t>(lane_count);
  return p;
}

const Prediction& CostJudge::single(BuiltRow& built) {
  if (!built.single) built.single = simulate(built, 1, query_.bytes, false);
  return *built.single;
}

CostJudge::Times CostJudge::judge(BuiltRow& built, int lane_count, bool may_simulate) {
  Prediction p;
  p.simulated = false;
  if (may_simulate && !built.schedules.empty())
    p = lane_count == 1 ? single(built) : in_lanes(built, lane_count, false);
  Times times;
  times.simulated = p.simulated;
  times.seconds = times.lent_seconds = p.simulated ? p.seconds : estimate(built, lane_count);
  if (!p.simulated || !may_lend() || built.steps > kWholeSteps) return times;
  const Prediction lent = in_lanes(built, lane_count, true);
  if (lent.simulated) times.lent_seconds = lent.seconds;
  return times;
}

// Of many lanes some are simulated, the rest take as long each.
Prediction CostJudge::in_lanes(const BuiltRow& built, int lane_count, bool lent) {
  const auto count = static_cast<size_t>(lane_count);
  if (count == 1 || built.steps * count <= kWholeSteps)
    return simulate(built, lane_count, query_.bytes, lent);
  Prediction p;
  p.simulated = false;
  if (built.steps * kSomeLanes > kMostSteps) return p;
  const Prediction fewer = simulate(built, kFewerLanes, query_.bytes / count * kFewerLanes, lent);
  p = simulate(built, kSomeLanes, query_.bytes / count * kSomeLanes, lent);
  const double each = (p.seconds - fewer.seconds) / (kSomeLanes - kFewerLanes);
  p.seconds += std::max(0.0, each) * (static_cast<double>(count) - kSomeLanes);
  p.simulated = p.simulated && fewer.simulated;
  return p;
}

// Estimates keep near the bounds; so that they do not win by that, each is as far off as what was
// simulated of its row. Beside sketches, lanes are judged by the sketches' measure: how far off
// the row is in one lane says nothing of a pipeline.
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

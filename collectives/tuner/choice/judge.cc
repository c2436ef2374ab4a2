#include "collectives/tuner/choice/judge.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "collectives/plan/protocol.h"

namespace ringwood {
namespace {

// Up to this many steps, all segments are simulated.
constexpr size_t kWholeSteps = 1500;
// Up to this many, shared buffers are simulated, too.
constexpr size_t kSharedSteps = 4096;
// Pipelines take somewhat longer than is expected, as their steps wait for each other.
constexpr double kExpected = 1.1;
// The cost of binding a step, in units of FairShare::work().
constexpr size_t kWorkOfStep = 4;

}  // namespace

double in_steps(double seconds) {
  constexpr int kDropped = 52 - 20;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  return std::bit_cast<double>((std::bit_cast<uint64_t>(seconds) + kHalf) >> kDropped << kDropped);
}

void CostJudge::enter(const BuiltRow& built) { entered_ += kWorkOfStep * built.steps; }

bool CostJudge::may_zero_copy() const {
  const auto bytes = static_cast<double>(query_.bytes);
  const bool in_memory = machine_.staged && bytes >= machine_.zero_copy &&
                         !all_apart(machine_.hosts, query_.n, machine_.loopback);
  const NetworkParameters& net = machine_.net;
  return in_memory || (net.carrier == PathClass::rdma && bytes >= net.zero_copy);
}

// The time is a weighted sum of the samples'; but what the busiest resource has to do is known.
Prediction CostJudge::simulate(BuiltRow& built, int segment_count, size_t bytes, bool zero_copy) {
  const bool one_round = built.one_round && segment_count == 1;
  const bool known = segment_count == 1 && bytes == query_.bytes && !zero_copy;
  Prediction p;
  for (size_t i = 0; i < built.samples().size(); ++i) {
    const RowSample& s = built.samples()[i];
    const Load load = load_of(query_, built, s, bytes, one_round, zero_copy);
    const MachineModel& machine = s.placement->machine;
    const Prediction of_sample = known ? predict(built.models[i], load, machine)
                                       : predict(model_of(s, segment_count, load), load, machine);
    built.work += of_sample.work;
    work_of(built) += of_sample.work;
    if (!known) work_of(built) += kWorkOfStep * s.steps * static_cast<size_t>(segment_count);
    p.simulated = p.simulated && of_sample.simulated;
    p.seconds += s.weight * of_sample.seconds;
    if (!p.simulated) break;
  }
  built.too_long = built.too_long || !p.simulated;
  return p;
}

const Prediction& CostJudge::single(BuiltRow& built, bool zero_copy) {
  std::optional<Prediction>& known = built.single[zero_copy];
  if (!known) known = simulate(built, 1, query_.bytes, zero_copy);
  return *known;
}

const Prediction& CostJudge::pair(BuiltRow& built, bool zero_copy) {
  std::optional<Prediction>& known = built.pair[zero_copy];
  if (!known) known = simulate(built, 2, query_.bytes, zero_copy);
  return *known;
}

CostJudge::Times CostJudge::judge(BuiltRow& built, int segment_count, bool may_simulate,
                                  double worth) {
  Times times = times_of(built, segment_count, may_simulate, worth);
  times.seconds = in_steps(times.seconds);
  times.zero_copy_seconds = in_steps(times.zero_copy_seconds);
  return times;
}

CostJudge::Times CostJudge::times_of(BuiltRow& built, int segment_count, bool may_simulate,
                                     double worth) {
  Prediction p;
  p.simulated = false;
  if (may_simulate && !built.samples().empty()) {
    // One segment first: the least work, and what it says helps to estimate the others.
    p = single(built, false);
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
  if (!p.simulated) times.zero_copy_seconds *= shared_part(built);
  if (!p.simulated || !may_zero_copy() || built.steps > kSharedSteps || times.seconds > worth)
    return times;
  const Prediction zero_copy = in_segments(built, segment_count, true);
  if (zero_copy.simulated)
    times.zero_copy_seconds = std::max(zero_copy.seconds, built.bounds.latencies);
  return times;
}

Prediction CostJudge::in_segments(BuiltRow& built, int segment_count, bool zero_copy) {
  const auto count = static_cast<size_t>(segment_count);
  if (count == 1) return single(built, zero_copy);
  if (count == 2) return pair(built, zero_copy);
  if (built.steps * count <= kWholeSteps)
    return simulate(built, segment_count, query_.bytes, zero_copy);
  return pipeline(built, segment_count, zero_copy);
}

// The first segment takes what it takes alone. Each other one follows it as soon as what is busiest
// allows: the more of that overlaps, the less do two halves take than one whole; and it is never
// less than the busiest resource's work. Messages cost as much in small segments as in large ones.
Prediction CostJudge::pipeline(BuiltRow& built, int segment_count, bool zero_copy) {
  const Prediction &whole = single(built, zero_copy), &halves = pair(built, zero_copy);
  const auto count = static_cast<size_t>(segment_count);
  Prediction p = simulate(built, 1, query_.bytes / count, zero_copy);
  const CostBounds& b = built.bounds;
  const double latencies = std::min(b.latencies, whole.seconds);
  const double half = latencies + (whole.seconds - latencies) / 2;
  // Bounds are those of private buffers.
  const double less = zero_copy ? std::min(1.0, whole.seconds / single(built, false).seconds) : 1.0;
  const double resource = b.resource * less;
  const double more = std::max(0.0, 2 * (halves.seconds - half) - resource);
  // Of long chains two halves say little: the error of what is small beside them.
  const double counts = std::min(1.0, resource / std::max(resource, whole.seconds - resource));
  const double busiest = resource + counts * more;
  p.seconds += (segment_count - 1) * (busiest / segment_count + b.posts);
  p.simulated = p.simulated && whole.simulated && halves.simulated;
  return p;
}

// As if what is busiest were so from the first segment's end on.
double CostJudge::expected(const BuiltRow& built, int segment_count) const {
  const CostBounds& b = built.bounds;
  if (!built.single[0] || !built.single[0]->simulated) return in_steps(b.estimate(segment_count));
  const double single = built.single[0]->seconds, latencies = std::min(b.latencies, single);
  const double first = latencies + (single - latencies) / segment_count;
  return in_steps(std::max(first, b.resource / segment_count) +
                  (segment_count - 1) * (b.resource / segment_count + b.posts));
}

// Of what a row takes with private buffers, what it takes with shared ones: that of one segment, if
// both were simulated. Or each estimate would lose by its shared buffers.
double CostJudge::shared_part(const BuiltRow& built) const {
  const std::optional<Prediction>&apart = built.single[0], &shared = built.single[1];
  if (!apart || !shared || !apart->simulated || !shared->simulated) return 1;
  return shared->seconds / std::max(1e-12, apart->seconds);
}

// Estimates are close to the lower bounds. So that they do not win by that, each is scaled by how
// far the simulations of its row were above their bounds.
double CostJudge::estimate(BuiltRow& built, int count) {
  constexpr double kUnknown = 1.25;
  const CostBounds& b = built.bounds;
  if (built.samples().empty()) return kUnknown * b.estimate(count);
  double off = kUnknown;
  if ((built.single[0] || within_budget(built)) && single(built, false).simulated) {
    if (count > 1) return kExpected * expected(built, count);
    off = single(built, false).seconds / std::max(1e-12, b.estimate());
  }
  return off * b.estimate(count);
}

}  // namespace ringwood

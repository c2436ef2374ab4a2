#include "collectives/tuner/choice/judge.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "collectives/plan/protocol.h"
#include "collectives/tuner/choice/siblings.h"

namespace ringwood {
namespace {

// Up to this many steps, all segments are simulated.
constexpr size_t kWholeSteps = 1500;
// Up to this many, shared buffers are simulated, too.
constexpr size_t kSharedSteps = 4096;
// Pipelines take somewhat longer than is expected, as their steps wait for each other.
constexpr double kExpected = 1.1;
// The cost of binding a step, in units of HostQueues::work(), and about that of simulating it, too.
constexpr size_t kWorkOfStep = 4, kWorkOfSimulatedStep = 15;
// To refine: so much of that, and, for what takes long itself, one for each 20 ns of that.
constexpr double kRefiningWork = 280e3, kMaxRefiningWork = 600e3, kSecondsOfWork = 20e-9;

}  // namespace

double in_steps(double seconds) {
  constexpr int kDropped = 52 - 20;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  return std::bit_cast<double>((std::bit_cast<uint64_t>(seconds) + kHalf) >> kDropped << kDropped);
}

void CostJudge::enter(const BuiltRow& built) { entered_ += kWorkOfStep * built.steps; }

bool CostJudge::may_zero_copy() const {
  if (machine_.has_devices()) return false;
  const auto bytes = static_cast<double>(query_.bytes);
  const bool in_memory = machine_.staged && bytes >= machine_.zero_copy &&
                         !all_apart(machine_.hosts, query_.n, machine_.loopback);
  const NetworkParameters& net = machine_.net;
  return in_memory || (net.carrier == PathClass::rdma && bytes >= net.zero_copy);
}

// The time is a weighted sum of the samples'; but what the busiest resource has to do is known.
Prediction CostJudge::simulate(BuiltRow& built, int segment_count, size_t bytes, bool zero_copy) {
  const bool one_round = built.one_round && segment_count == 1;
  const bool whole = segment_count == 1 && bytes == query_.bytes;
  std::vector<CostBounds> bounds;  // of shared buffers
  Prediction p;
  for (size_t i = 0; i < built.samples().size(); ++i) {
    const RowSample& s = built.samples()[i];
    const Load load = load_of(query_, built, s, bytes, one_round, zero_copy);
    const MachineModel& machine = s.placement->machine;
    const bool known = whole && !zero_copy;
    const CostModel other = known ? CostModel{} : model_of(s, segment_count, load);
    const Prediction of_sample = predict(known ? built.models[i] : other, load, machine);
    built.work += of_sample.work;
    work_of(built) += of_sample.work;
    if (!known) work_of(built) += kWorkOfStep * s.steps * static_cast<size_t>(segment_count);
    p.simulated = p.simulated && of_sample.simulated;
    p.seconds += s.weight * of_sample.seconds;
    if (known && &s == &built.largest()) built.of_largest = of_sample.seconds;
    if (!p.simulated) break;
    if (whole && zero_copy) bounds.push_back(bounds_of(other, machine));
  }
  if (p.simulated && whole && zero_copy) built.shared_bounds = extended(built, bounds);
  built.too_long = built.too_long || !p.simulated;
  return p;
}

const Prediction& CostJudge::single(BuiltRow& built, bool zero_copy) {
  std::optional<Prediction>& known = built.single[zero_copy];
  if (known) return *known;
  known = simulate(built, 1, query_.bytes, zero_copy);
  if (known->simulated && !zero_copy) least_off_ = std::min(least_off_, off(built));
  return *known;
}

// How far the simulation of one segment is above its bounds.
double CostJudge::off(const BuiltRow& built) {
  return built.single[0]->seconds / std::max(1e-12, built.bounds.estimate());
}

// In two or four segments.
const Prediction& CostJudge::in_parts(BuiltRow& built, int segment_count, bool zero_copy) {
  std::optional<Prediction>& known = (segment_count == 2 ? built.pair : built.four)[zero_copy];
  if (!known) known = simulate(built, segment_count, query_.bytes, zero_copy);
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
  times.exact = p.simulated && (segment_count <= 2 || simulates_all(built, segment_count));
  times.extended = !built.profile->direct();
  if (p.simulated && times.extended) p.seconds = std::max(p.seconds, built.bounds.done());
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
  if (count == 2 || (count == 4 && built.four[zero_copy]))
    return in_parts(built, segment_count, zero_copy);
  if (simulates_all(built, segment_count))
    return simulate(built, segment_count, query_.bytes, zero_copy);
  return pipeline(built, segment_count, zero_copy);
}

bool CostJudge::simulates_all(const BuiltRow& built, int segment_count) {
  return built.steps * static_cast<size_t>(segment_count) <= kWholeSteps;
}

// What a row takes beyond the work of what is busiest, its steps spend waiting. Of that each
// doubling of the segments leaves the same part, that of two halves: a half of it where steps wait
// in a chain, more where those of different segments get into each other's way. Where halves gain
// nothing, as in a chain of ranks that receive one while they send the other, quarters say more. At
// the least the first segment takes what it takes alone, and what is busiest does the others after
// it.
Prediction CostJudge::pipeline(BuiltRow& built, int segment_count, bool zero_copy) {
  const Prediction &whole = single(built, zero_copy), &halves = in_parts(built, 2, zero_copy);
  Prediction p = simulate(built, 1, query_.bytes / static_cast<size_t>(segment_count), zero_copy);
  p.simulated = p.simulated && whole.simulated && halves.simulated;
  const CostBounds& bounds = zero_copy ? built.shared_bounds : built.bounds;
  const auto busy = [&](int count) { return bounds.busy_in(count); };
  const double waits = std::max(0.0, whole.seconds - busy(1));
  const auto left_of = [&](const Prediction& parts, int count) {
    return waits > 0 ? std::clamp((parts.seconds - busy(count)) / waits, 0.0, 1.0) : 0.0;
  };
  double left = left_of(halves, 2);
  constexpr double kNothing = 0.9;
  if (left > kNothing && segment_count > 4 && within_budget(built)) {
    const bool too_long = std::exchange(built.too_long, false);
    const Prediction& quarters = in_parts(built, 4, zero_copy);
    if (quarters.simulated) left = std::sqrt(left_of(quarters, 4));
    built.too_long = too_long;  // halves say enough
  }
  const double all = busy(segment_count);
  p.seconds = std::max(all + waits * left_of_doublings(left, segment_count),
                       p.seconds + all * (segment_count - 1) / segment_count);
  return p;
}

// As if what is busiest were so from the first segment's end on.
double CostJudge::expected(const BuiltRow& built, int segment_count) const {
  const CostBounds& b = built.bounds;
  if (!built.single[0] || !built.single[0]->simulated) return in_steps(b.estimate(segment_count));
  const double single = built.single[0]->seconds, latencies = std::min(b.latencies, single);
  const double first = latencies + (single - latencies) / segment_count;
  const double each = b.busy_in(segment_count) / segment_count;
  return in_steps(std::max(first, each) + (segment_count - 1) * each);
}

// Of what a row takes with private buffers, what it takes with shared ones: that of one segment, if
// both were simulated. Or each estimate would lose by its shared buffers.
double CostJudge::shared_part(const BuiltRow& built) const {
  const std::optional<Prediction>&apart = built.single[0], &shared = built.single[1];
  if (!apart || !shared || !apart->simulated || !shared->simulated) return 1;
  return shared->seconds / std::max(1e-12, apart->seconds);
}

// Estimates are close to the lower bounds. So that they do not win by that, each is scaled by how
// far the simulation of its row was above its bounds; or at the least that of any row.
double CostJudge::estimate(BuiltRow& built, int count) {
  constexpr double kUnsimulated = 1.25;  // above the bounds, at the least
  const CostBounds& b = built.bounds;
  const bool may_know = built.single[0] || (!built.samples().empty() && within_budget(built));
  if (may_know && single(built, false).simulated)
    return count > 1 ? kExpected * expected(built, count) : off(built) * b.estimate(count);
  const double least = std::isfinite(least_off_) ? least_off_ : 1;
  return std::max(kUnsimulated, least) * b.estimate(count);
}

// So many of a row's segments on this sample.
std::optional<double> CostJudge::some_of(BuiltRow& built, const RowSample& s, int count,
                                         int segment_count, size_t most, bool zero_copy) {
  if (refining_work_ >= most) return {};
  const auto of_all = static_cast<size_t>(segment_count), some = static_cast<size_t>(count);
  const size_t bytes = count == segment_count ? query_.bytes : query_.bytes / of_all * some;
  const bool one_round = built.one_round && segment_count == 1;
  Load load = load_of(query_, built, s, bytes, one_round, zero_copy);
  load.most_work = most - refining_work_;
  const Prediction p = predict(model_of(s, count, load), load, s.placement->machine);
  refining_work_ += p.work + kWorkOfStep * s.steps * some;
  return p.simulated ? std::optional(p.seconds) : std::nullopt;
}

// As many segments as that work suffices for: all, of up to kFewSegments if any; or two times the
// first ones, as large as they are. Each that follows takes about what one of the last of these
// added; or, once all links of a chain are at work, what the busiest resource needs.
std::optional<CostJudge::Refined> CostJudge::segments_of(BuiltRow& built, const RowSample& s,
                                                         int segment_count, size_t most,
                                                         bool zero_copy) {
  constexpr double kAsTheLast = 0.75;
  constexpr int kFewSegments = 8;
  if (refining_work_ >= most) return {};
  const size_t of_one = kWorkOfSimulatedStep * std::max<size_t>(1, s.steps);
  const size_t work = std::min(most - refining_work_, std::max(most / 4, kFewSegments * of_one));
  const auto may = static_cast<int>(std::min<size_t>(work / of_one, kMaxSegments));
  if (segment_count <= may) {
    const auto all = some_of(built, s, segment_count, segment_count, most, zero_copy);
    return all ? std::optional(Refined{*all, true}) : std::nullopt;
  }
  if (zero_copy) return {};  // what pipeline() says is nearer there
  // The second segment of a tree does not add yet what later ones do.
  int few = segment_count <= kFewSegments ? 1 : 2;
  if (3 * few > may) return {};
  while (6 * few <= may) few *= 2;
  const std::optional<double> first = some_of(built, s, few, segment_count, most, false);
  const std::optional<double> second = some_of(built, s, 2 * few, segment_count, most, false);
  if (!first || !second) return {};
  const double busy = built.bounds_of_largest.busy_in(segment_count) / segment_count;
  const double added = std::max((*second - *first) / few, busy);
  const double others = kAsTheLast * added + (1 - kAsTheLast) * busy;
  return Refined{*second + (segment_count - 2 * few) * others, false};
}

bool CostJudge::refine_single(BuiltRow& built, size_t most) {
  Prediction all;
  double of_largest = 0;
  for (const RowSample& s : built.samples()) {
    const std::optional<double> seconds = some_of(built, s, 1, 1, most, false);
    if (!seconds) return false;
    if (&s == &built.largest()) of_largest = *seconds;
    all.seconds += s.weight * *seconds;
  }
  if (!built.profile->direct()) all.seconds = std::max(all.seconds, built.bounds.done());
  built.single[0] = all;
  built.of_largest = of_largest;
  return true;
}

// Of a row that is extended, segments are simulated on its largest sample: they gain as much there.
std::optional<CostJudge::Refined> CostJudge::refine(BuiltRow& built, int segment_count,
                                                    double seconds, bool zero_copy) {
  if (built.samples().empty()) return {};
  const auto most = static_cast<size_t>(
      std::min<double>(kMaxRefiningWork, kRefiningWork + seconds / kSecondsOfWork));
  const bool direct = built.profile->direct();
  const bool is_known = built.single[0] && built.single[0]->simulated;
  if ((segment_count == 1 || !direct) && !is_known && !refine_single(built, most)) return {};
  if (segment_count == 1) {
    const Prediction& one = zero_copy ? single(built, true) : *built.single[0];
    return one.simulated ? std::optional(Refined{in_steps(one.seconds), true}) : std::nullopt;
  }
  std::optional<Refined> took = segments_of(built, built.largest(), segment_count, most, zero_copy);
  if (!took) return {};
  if (!direct) took->seconds *= built.single[0]->seconds / built.of_largest;
  took->seconds = in_steps(took->seconds);
  return took;
}

}  // namespace ringwood

// Chooser: choices are kept, and those of a tuning file go before predictions.
#include <algorithm>

#include <fmt/format.h>

#include "collectives/choice/choose.h"
#include "collectives/choice/row_profiles.h"
#include "collectives/kernels/types.h"
#include "collectives/plan/proved_schedules.h"

namespace ringwood {
namespace {

// Nine collectives of a few dozen sizes each; beyond this the queries do not repeat.
constexpr size_t kMaxChoices = 4096;

std::string time_text(const MeasuredTime& t) {
  return t.median < 1e-3 ? fmt::format("{:.4g} us", t.median * 1e6)
                         : fmt::format("{:.4g} ms", t.median * 1e3);
}

// "tuned: 74.7 us measured at 8192 B, where linear/1 takes 101.2 us", by the nearest point.
std::string words_on(const TunedRange& range, size_t bytes) {
  if (edited(range)) return "tuned: edited in the file, not measured";
  const TunedPoint* nearest = nullptr;
  const auto off = [bytes](const TunedPoint& p) {
    return static_cast<double>(std::max(p.bytes, bytes)) /
           static_cast<double>(std::max<size_t>(1, std::min(p.bytes, bytes)));
  };
  for (const TunedPoint& p : range.points)
    if (!nearest || off(p) < off(*nearest)) nearest = &p;
  if (!nearest) return "tuned";
  return fmt::format("tuned: {} measured at {} B, where {}/{} takes {}", time_text(nearest->time),
                     nearest->bytes, nearest->default_algorithm, nearest->default_segments,
                     time_text(nearest->default_time));
}

// As `ringwood perf` counts.
size_t whole_bytes(const TuningQuery& q) {
  return in_blocks(q.collective) ? q.bytes * static_cast<size_t>(q.n) : q.bytes;
}

}  // namespace

Chooser::Chooser(MachineModel machine, const Options& options,
                 std::shared_ptr<const TuningFile> tuning)
    : machine_(std::move(machine)), options_(options), tuning_(std::move(tuning)) {}

const TunedRange* Chooser::tuned_range(const TuningQuery& q, const std::string& algorithm,
                                       int segments) const {
  if (!tuning_ || q.n != tuning_->fingerprint.ranks() || q.uneven || !algorithm.empty() ||
      segments != 0 || names_row(options_, q.collective) ||
      (options_.reproducible && reduces(q.collective)))
    return nullptr;
  const bool rounded = reduces(q.collective) && gains_by_rows(q.type, q.op);
  const double tolerance = may_encode(q.collective, q.type, q.op) ? q.tolerance : 0;
  return find_range(*tuning_, {q.collective, has_root(q.collective) ? q.root : 0, rounded,
                               whole_bytes(q), tolerance});
}

TuningChoice Chooser::tuned_choice(const TuningQuery& query, const TunedRange& range) {
  if (auto own = own_schedules(*tuning_, range))
    return {
        std::string(kUserSchedules), range.segments, WireFormat::exact, 0, &range, std::move(own)};
  TuningQuery q = query;
  if (range.wire == WireFormat::exact) q.tolerance = 0;
  TuningChoice choice =
      ringwood::choose(q, options_, range.algorithm, range.segments, &profiles(q.n));
  choice.tuned = &range;
  return choice;
}

TuningChoice Chooser::choose(TuningQuery q, const std::string& algorithm, int segments) {
  check_tolerance(q);  // no key can be made of a NaN
  q.machine = &machine_;
  const TunedRange* const range = tuned_range(q, algorithm, segments);
  Key key{q.collective, size_class(q.bytes), q.type,    q.op,     q.n,
          q.uneven,     q.tolerance,         algorithm, segments, range};
  std::lock_guard lock(mutex_);
  const auto it = choices_.find(key);
  if (it != choices_.end()) return it->second;
  if (choices_.size() >= kMaxChoices) choices_.clear();
  TuningChoice choice = range ? tuned_choice(q, *range)
                              : ringwood::choose(q, options_, algorithm, segments, &profiles(q.n));
  return choices_.emplace(std::move(key), std::move(choice)).first->second;
}

std::vector<Candidate> Chooser::explain(TuningQuery q) {
  q.machine = &machine_;
  const TunedRange* const range = tuned_range(q, "", 0);
  std::lock_guard lock(mutex_);
  std::vector<Candidate> candidates = ringwood::explain(q, options_, "", 0, &profiles(q.n));
  if (range) explain_tuned(q, *range, candidates);
  return candidates;
}

// The choice becomes the range's, with the prediction for it, or as a line of its own.
void Chooser::explain_tuned(const TuningQuery& q, const TunedRange& range,
                            std::vector<Candidate>& candidates) {
  const TuningChoice choice = tuned_choice(q, range);
  const auto is_choice = [&](const Candidate& c) {
    return TuningChoice{c.algorithm, c.segments, c.wire, 0, nullptr, choice.own} == choice;
  };
  auto it = std::ranges::find_if(candidates, is_choice);
  if (it == candidates.end()) {
    Candidate more;
    more.algorithm = range.algorithm;
    more.segments = choice.segments;
    more.wire = choice.wire;
    more.seconds = more.zero_copy_seconds = std::numeric_limits<double>::infinity();
    if (!choice.own)
      for (Candidate& c :
           ringwood::explain(q, options_, range.algorithm, range.segments, &profiles(q.n)))
        if (is_choice(c)) more = std::move(c);
    it = candidates.insert(candidates.end(), std::move(more));
  }
  for (Candidate& c : candidates) {
    if (c.chosen) c.why_not = "predicted best, but another one was measured to be";
    c.chosen = false;
  }
  it->chosen = true;
  it->why_not.clear();
  it->why = words_on(range, whole_bytes(q));
}

RowProfiles& Chooser::profiles(int n) {
  std::unique_ptr<RowProfiles>& found = profiles_[n];
  if (!found) found = std::make_unique<RowProfiles>(machine_, n);
  return *found;
}

Chooser::~Chooser() = default;

}  // namespace ringwood

#include "collectives/tuner/choice/cost_candidates.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "collectives/plan/sums.h"
#include "collectives/tuner/choice/built_rows.h"
#include "collectives/tuner/choice/decide.h"
#include "collectives/tuner/choice/judge.h"

namespace ringwood {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Between hosts nothing is gained by shared buffers, so this much slower candidates do not win by
// them. On one host they do.
constexpr double kWorthSharing = 1.5;
// Of pipelines that are expected to take this much longer than the best no segments are simulated.
constexpr double kFarOff = 1.25;
// Of those that are not exactly known this much slower ones may be the fastest.
constexpr double kNearby = 1.35;
// About how far such a time may be from what it takes, where there was no work left to simulate it.
constexpr double kUnrefined = 1.15;
// Each doubling of the roundings of a sum beyond one per level has to make a row this many times
// faster.
constexpr double kRoundingPrice = 1.3;

class Contest {
 public:
  Contest(const CandidateQuery& query, const MachineModel& machine, RowProfiles& profiles)
      : query_(query),
        machine_(machine),
        profiles_(profiles),
        builder_(query, machine, profiles),
        judge_(query, machine) {}

  std::vector<Candidate> run() {
    for (const WireFormat wire : {WireFormat::exact, WireFormat::bf16, WireFormat::int8})
      for (const AlgorithmRow* row : query_.rows)
        if (wire == WireFormat::exact || builder_.may_encode()) enter(*row, wire);
    if (query_.traced) keep_those_that_are_traced();
    if (query_.rounding == CandidateQuery::Rounding::once) keep_those_that_add_once();
    contend();
    refine();
    reconsider();
    mark_chosen();
    chosen_ = true;
    for (const size_t i : judged_)
      if (query_.all && entries_[i].simulated && !entries_[i].refined) share(i);
    for (const size_t i : refused_) judge(i, query_.all);
    for (const size_t i : beaten_) {
      candidates_[i].seconds = candidates_[i].zero_copy_seconds = entries_[i].least;
      candidates_[i].bound = true;
      candidates_[i].why_not = "slower even at its bound";
      if (query_.all) judge(i, true);
    }
    profiles_.count(judge_.work());
    return std::move(candidates_);
  }

 private:
  struct Entry {
    size_t built = 0;
    double least = 0;  // lower bound: no execution is faster
    // Judged: what it takes is known from its bounds only; some of it was simulated; not all of its
    // segments were; refine()d.
    bool estimated = false, simulated = false, rough = false, refined = false;
  };

  static Candidate candidate(const AlgorithmRow& row, int segments, WireFormat wire) {
    Candidate c;
    c.algorithm = row.name;
    c.segments = segments;
    c.wire = wire;
    c.seconds = c.zero_copy_seconds = kInfinite;
    return c;
  }

  void enter(const AlgorithmRow& row, WireFormat wire) {
    std::optional<BuiltRow> built = builder_.build(row, wire);
    if (!built) return;
    if (!built->why_not.empty()) {
      Candidate c = candidate(row, std::max(1, query_.segments), wire);
      c.why_not = std::move(built->why_not);
      candidates_.push_back(std::move(c));
      entries_.push_back({});
      return;
    }
    for (const int count : built->segments) {
      Candidate c = candidate(row, count, wire);
      weigh_roundings(row, c);
      candidates_.push_back(std::move(c));
      entries_.push_back({built_.size(), in_steps(builder_.least(*built))});
    }
    built_.push_back(std::move(*built));
  }

  // Known better from then on.
  void bind(size_t i) {
    BuiltRow& built = built_[entries_[i].built];
    if (built.bound) return;
    builder_.bind(built);
    judge_.enter(built);
    for (size_t k = 0; k < entries_.size(); ++k)
      if (candidates_[k].why_not.empty() && entries_[k].built == entries_[i].built)
        entries_[k].least = in_steps(built.bounds.lower(candidates_[k].segments));
  }

  double expected(size_t i) const {
    return judge_.expected(built_[entries_[i].built], candidates_[i].segments);
  }
  // One segment of a row comes before others, as early as the best of them: it is the least work,
  // and what it takes says what is to be expected of more.
  double turn(size_t i) const {
    const BuiltRow& built = built_[entries_[i].built];
    if (!built.bound) return entries_[i].least;
    double least = expected(i);
    for (const int count : built.segments)
      if (candidates_[i].segments == 1) least = std::min(least, judge_.expected(built, count));
    return least;
  }

  // Those that are not refused, in the order of what is expected of them. A row is bound when it is
  // its turn; what has been found out by then may send a candidate back.
  void contend() {
    const auto with_key = [&](size_t i) {
      return std::tuple(turn(i) * candidates_[i].handicap, candidates_[i].segments, i);
    };
    std::set<std::tuple<double, int, size_t>> waiting;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty()) waiting.insert(with_key(i));
    while (!waiting.empty()) {
      const auto [at, segments, i] = waiting.extract(waiting.begin()).value();
      if (const auto now = with_key(i); std::get<0>(now) > at) {
        waiting.insert(now);
        continue;
      }
      const double most = best_ * min_regret();
      const double times = candidates_[i].handicap;
      if (entries_[i].least * times > most * kModelMargin) {
        beaten_.push_back(i);
        continue;
      }
      if (!built_[entries_[i].built].bound) {
        bind(i);
        waiting.insert(with_key(i));
        continue;
      }
      weigh(i, most);
    }
  }

  // `most`: what the best takes, as far as is known.
  void weigh(size_t i, double most) {
    const double times = candidates_[i].handicap;
    const bool worth_it = candidates_[i].segments == 1 ||
                          (expected(i) * times <= most * kFarOff && may_gain_by_segments(i));
    judge(i, judge_.within_budget(built_[entries_[i].built]) && worth_it);
    judged_.push_back(i);
    hold(i);
  }

  // The others against it.
  void hold(size_t i) {
    best_ = std::min(best_, seconds_of(i));
    best_zero_copy_ = std::min(best_zero_copy_, zero_copy_of(i));
  }

  // Those that were beaten only by what, looked at again, takes longer.
  void reconsider() {
    const double most = best_ * min_regret();
    const auto beaten = [&](size_t i) {
      return entries_[i].least * candidates_[i].handicap > most * kModelMargin;
    };
    std::vector<size_t> others;
    std::erase_if(beaten_, [&](size_t i) {
      if (!beaten(i)) bind(i);  // after which it may be
      if (beaten(i)) return false;
      others.push_back(i);
      return true;
    });
    for (const size_t i : others) weigh(i, most);
    if (!others.empty()) refine();
  }

  double seconds_of(size_t i) const { return candidates_[i].seconds * candidates_[i].handicap; }
  double zero_copy_of(size_t i) const {
    return candidates_[i].zero_copy_seconds * candidates_[i].handicap;
  }

  // Estimates are far above bounds where those of other rows are.
  bool may_be_near(size_t i) const {
    const CostBounds& bounds = built_[entries_[i].built].bounds;
    return entries_[i].estimated &&
           bounds.estimate(candidates_[i].segments) * candidates_[i].handicap <= best_;
  }

  // Whether what is known of it decides what is chosen, so that it is to be known exactly.
  bool decides(size_t i) const {
    if (host_count(machine_) > 1) return seconds_of(i) <= best_ * kNearby || may_be_near(i);
    return seconds_of(i) <= best_ || zero_copy_of(i) <= best_zero_copy_ ||
           regret(i) <= min_regret() * kModelMargin;
  }

  // Once more, and more exactly, those that may be the fastest: what decides between them. On one
  // host, where segments gain little, only what may be chosen otherwise, and what others are held
  // against.
  void refine() {
    std::vector<size_t> left;
    std::ranges::copy_if(judged_, std::back_inserter(left),
                         [&](size_t i) { return entries_[i].rough && !entries_[i].refined; });
    while (!left.empty()) {
      const auto next = std::ranges::min_element(
          left, {}, [&](size_t i) { return std::pair(!decides(i), seconds_of(i)); });
      const size_t i = *next;
      left.erase(next);
      if (!decides(i)) return;
      Candidate& c = candidates_[i];
      const auto found = judge_.refine(built_[entries_[i].built], c.segments, best_, false);
      if (!found && judged_.size() == 1) return;
      const double part = std::min(c.zero_copy_seconds / std::max(1e-12, c.seconds),
                                   judge_.shared_part(built_[entries_[i].built]));
      // What is not known better does not win by that.
      c.seconds = found ? found->seconds : c.seconds * kUnrefined;
      c.zero_copy_seconds = shared_of(i, part);
      const BuiltRow& built = built_[entries_[i].built];
      c.simulated = found && found->exact && built.profile->direct() && !built.padded;
      entries_[i].refined = true;
      for (const size_t k : left)  // what one segment takes says more of several
        if (c.segments == 1 && entries_[k].built == entries_[i].built && !entries_[k].simulated)
          judge(k, false);
      best_ = best_zero_copy_ = kInfinite;
      for (const size_t k : judged_) hold(k);
    }
  }

  // With shared buffers, of what was refined: on one host, where these decide as well, simulated,
  // or no less than was known; between hosts that part of what private ones take.
  double shared_of(size_t i, double part) {
    const Candidate& c = candidates_[i];
    if (host_count(machine_) > 1 || !judge_.may_zero_copy()) return c.seconds * part;
    const auto shared = judge_.refine(built_[entries_[i].built], c.segments, best_, true);
    return shared ? shared->seconds : std::max(c.zero_copy_seconds, c.seconds * part);
  }

  // Else its row in one segment is about as fast, and is preferred.
  bool may_gain_by_segments(size_t i) const {
    const std::optional<Prediction>& whole = built_[entries_[i].built].single[0];
    return !whole || !whole->simulated || entries_[i].least * kModelMargin < whole->seconds;
  }

  double regret(size_t i) const {
    const Candidate& c = candidates_[i];
    const auto times = [&](double seconds, double best) {
      return best > 0 ? seconds * candidates_[i].handicap / best : 1;
    };
    return std::max(times(c.seconds, best_), times(c.zero_copy_seconds, best_zero_copy_));
  }
  double min_regret() const {
    double least = judged_.empty() ? 1 : kInfinite;
    for (const size_t i : judged_) least = std::min(least, regret(i));
    return least;
  }

  // Inside a host, and between hosts.
  int levels() const {
    const int hosts = host_count(machine_);
    return (hosts > 1) + (hosts == 1 || query_.n > hosts);
  }

  void weigh_roundings(const AlgorithmRow& row, Candidate& c) {
    if (query_.rounding == CandidateQuery::Rounding::free) return;
    c.roundings = profiles_.sum_roundings(row);
    for (int most = levels(); most < c.roundings; most *= 2) c.handicap *= kRoundingPrice;
  }

  // Applies only if there is such a row at all.
  template <class Which>
  void keep_only(const Which& which, const char* why_not) {
    const auto kept = [&](size_t i) { return candidates_[i].why_not.empty() && which(i); };
    std::vector<size_t> others;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty() && !kept(i)) others.push_back(i);
    const auto all = std::ranges::count_if(candidates_, [](auto& c) { return c.why_not.empty(); });
    if (others.size() == static_cast<size_t>(all)) return;
    for (const size_t i : others) {
      candidates_[i].why_not = why_not;
      candidates_[i].handicap = kInfinite;
      refused_.push_back(i);
    }
  }
  void keep_those_that_add_once() {
    keep_only([&](size_t i) { return candidates_[i].roundings == 1; },
              "its partial sums may overflow");
  }
  void keep_those_that_are_traced() {
    const auto traced = [&](size_t i) {
      return built_[entries_[i].built].profile->schedule_steps <= kMaxTracedSteps;
    };
    keep_only(traced, "too many steps to find the sums that are to be scaled");
  }

  double worth(size_t i) const {
    // Whoever asks for all of them gets them after the choice, whose budget that would use up.
    if ((query_.all && chosen_) || host_count(machine_) == 1) return kInfinite;
    return kWorthSharing * best_ / candidates_[i].handicap;
  }

  void judge(size_t i, bool may_simulate) {
    bind(i);
    Candidate& c = candidates_[i];
    const CostJudge::Times times =
        judge_.judge(built_[entries_[i].built], c.segments, may_simulate, worth(i));
    c.seconds = times.seconds;
    c.zero_copy_seconds = times.zero_copy_seconds;
    c.simulated = times.exact && !times.extended && !built_[entries_[i].built].padded;
    c.bound = false;
    entries_[i].estimated = !times.simulated;
    entries_[i].simulated = times.simulated && !times.extended;
    entries_[i].rough = !times.exact;
    c.busiest = built_[entries_[i].built].bounds.busiest(c.segments);
  }

  // With shared buffers, which were not worth it for the choice.
  void share(size_t i) {
    Candidate& c = candidates_[i];
    const CostJudge::Times times =
        judge_.judge(built_[entries_[i].built], c.segments, true, worth(i));
    if (times.simulated) c.zero_copy_seconds = times.zero_copy_seconds;
  }

  Contender contender_of(size_t i) const {
    const Candidate& c = candidates_[i];
    const BuiltRow& built = built_[entries_[i].built];
    const size_t senders = built.profile->far_senders;
    return {c.seconds,
            c.zero_copy_seconds,
            c.handicap,
            in_steps(built.bounds.resource),
            senders > 0 ? built.bounds.latencies : 0,
            senders};
  }

  void mark_chosen() {
    std::vector<size_t> those;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].why_not.empty()) those.push_back(i);
    std::vector<Contender> contenders;
    for (const size_t i : those) contenders.push_back(contender_of(i));
    const Decision decision = decide(contenders);
    for (size_t at = 0; at < those.size(); ++at) {
      Candidate& c = candidates_[those[at]];
      c.chosen = decision.chosen == at;
      if (!c.chosen) c.why_not = decision.why_not[at];
    }
  }

  const CandidateQuery& query_;
  const MachineModel& machine_;
  RowProfiles& profiles_;
  const RowBuilder builder_;
  CostJudge judge_;
  std::vector<BuiltRow> built_;
  std::vector<Candidate> candidates_;
  std::vector<Entry> entries_;  // parallel to candidates_
  std::vector<size_t> beaten_, judged_, refused_;
  // Of those judged, with their handicaps.
  double best_ = kInfinite, best_zero_copy_ = kInfinite;
  bool chosen_ = false;
};

}  // namespace

std::vector<Candidate> cost_candidates(const CandidateQuery& query, const MachineModel& machine,
                                       RowProfiles& profiles) {
  return Contest(query, machine, profiles).run();
}

}  // namespace ringwood

#include "collectives/choice/cost_candidates.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "collectives/choice/built_rows.h"
#include "collectives/choice/judge.h"

namespace ringwood {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Predictions nearer than this count as equal: the model is not more accurate.
constexpr double kMargin = 1.05;

class Contest {
 public:
  Contest(const CandidateQuery& query, const MachineModel& machine, RowProfiles& profiles)
      : query_(query),
        profiles_(profiles),
        builder_(query, machine, profiles),
        judge_(query, machine) {}

  std::vector<Candidate> run() {
    for (const WireFormat wire : {WireFormat::exact, WireFormat::bf16, WireFormat::int8})
      for (const AlgorithmRow* row : query_.rows)
        if (wire == WireFormat::exact || builder_.may_encode()) enter(*row, wire);
    if (query_.adds_once) keep_those_that_add_once();
    std::vector<size_t> order;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty()) order.push_back(i);
    // One segment first: that is the least work, so every row that may win is simulated at all.
    const auto key = [&](size_t i) {
      return std::pair(candidates_[i].segments > 1, entries_[i].least);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    for (const size_t i : order) {
      if (entries_[i].least > best_ * least_regret() * kMargin) {
        beaten_.push_back(i);
        continue;
      }
      judge(i, judge_.within_budget());
      judged_.push_back(i);
      best_ = std::min(best_, candidates_[i].seconds);
      best_zero_copy_ = std::min(best_zero_copy_, candidates_[i].zero_copy_seconds);
    }
    mark_chosen(least_regret());
    for (const size_t i : beaten_) {
      candidates_[i].seconds = candidates_[i].zero_copy_seconds = entries_[i].least;
      candidates_[i].why_not = "slower even at its bound";
      if (query_.all) judge(i, true);
    }
    return std::move(candidates_);
  }

 private:
  struct Entry {
    size_t built = 0;
    double least = 0;  // lower bound: no execution is faster
  };

  void enter(const AlgorithmRow& row, WireFormat wire) {
    std::optional<BuiltRow> built = builder_.build(row, wire);
    if (!built) return;
    if (!built->why_not.empty()) {
      candidates_.push_back({row.name, std::max(1, query_.segments), wire, kInfinite, kInfinite,
                             false, false, std::move(built->why_not)});
      entries_.push_back({});
      return;
    }
    for (const int count : built->segments) {
      candidates_.push_back({row.name, count, wire, kInfinite, kInfinite, false, false, ""});
      // Segments shorten the chain of waiting steps, but not the work of the resources.
      entries_.push_back(
          {built_.size(), count == 1 ? built->bounds.lower() : built->bounds.resource});
    }
    judge_.enter(*built);
    built_.push_back(std::move(*built));
  }

  double regret(const Candidate& c) const {
    const auto times = [](double seconds, double best) { return best > 0 ? seconds / best : 1; };
    return std::max(times(c.seconds, best_), times(c.zero_copy_seconds, best_zero_copy_));
  }
  double least_regret() const {
    double least = judged_.empty() ? 1 : kInfinite;
    for (const size_t i : judged_) least = std::min(least, regret(candidates_[i]));
    return least;
  }

  // Applies only if there is such a row at all. Rows with many steps are left out: with so many
  // ranks a row with one owner for all operands costs many times more than the others.
  void keep_those_that_add_once() {
    std::vector<char> keeps;
    for (const BuiltRow& built : built_)
      keeps.push_back(built.profile->steps <= kMaxSteps && profiles_.adds_once(*built.row));
    if (std::find(keeps.begin(), keeps.end(), true) == keeps.end()) return;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty() && !keeps[entries_[i].built]) {
        candidates_[i].why_not = "rounds partial sums of a small type more than once";
        judge(i, query_.all);
      }
  }

  void judge(size_t i, bool may_simulate) {
    Candidate& c = candidates_[i];
    const CostJudge::Times times =
        judge_.judge(built_[entries_[i].built], c.segments, may_simulate);
    c.seconds = times.seconds;
    c.zero_copy_seconds = times.zero_copy_seconds;
    c.simulated = times.simulated && !times.extended;
  }

  // Of the candidates that are about as fast, chooses the one whose busiest resource has the least
  // work: whatever the model omits (other work, other groups) slows down the others more.
  // Of these, the one in which a rank receives from the fewest ranks of other hosts: where many
  // send to one port at once, networks lose more than the model says (4 hosts over TCP: direct
  // all_gather of 2 MiB takes 1.17 of ring's time). But not one that would lose if each message on
  // its way took twice the latency, as it does where a rank has to be woken up (8 hosts over TCP:
  // ring all_gather of 64 KiB takes 1.8 of bruck's time).
  void mark_chosen(double least_of_all) {
    double least = kInfinite;
    const auto may_win = [&](size_t i) {
      return candidates_[i].why_not.empty() && regret(candidates_[i]) <= least_of_all * kMargin;
    };
    const auto busy = [&](size_t i) { return built_[entries_[i].built].bounds.resource; };
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (may_win(i)) least = std::min(least, busy(i));
    const auto late = [&](size_t i) {
      const BuiltRow& built = built_[entries_[i].built];
      const double more = built.profile->far_senders > 0 ? built.bounds.latencies : 0;
      return candidates_[i].seconds + more;
    };
    double least_late = kInfinite;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (may_win(i) && busy(i) <= least * kMargin) least_late = std::min(least_late, late(i));
    const auto is_lean = [&](size_t i) {
      return may_win(i) && busy(i) <= least * kMargin && late(i) <= least_late * kMargin;
    };
    const auto senders = [&](size_t i) { return built_[entries_[i].built].profile->far_senders; };
    size_t fewest = std::numeric_limits<size_t>::max();
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (is_lean(i)) fewest = std::min(fewest, senders(i));
    bool found = false;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      if (!c.why_not.empty()) continue;
      c.chosen = !found && is_lean(i) && senders(i) == fewest;
      found = found || c.chosen;
      if (!c.chosen)
        c.why_not = !may_win(i)
                        ? (c.seconds <= best_ * kMargin ? "slower with shared buffers" : "slower")
                    : busy(i) > least * kMargin      ? "as fast, but with more work"
                    : late(i) > least_late * kMargin ? "as fast, but with more latencies"
                    : senders(i) > fewest            ? "as fast, but from more senders at once"
                                                     : "as fast, but after it in the table";
    }
  }

  const CandidateQuery& query_;
  RowProfiles& profiles_;
  const RowBuilder builder_;
  CostJudge judge_;
  std::vector<BuiltRow> built_;
  std::vector<Candidate> candidates_;
  std::vector<Entry> entries_;  // parallel to candidates_
  std::vector<size_t> beaten_, judged_;
  double best_ = kInfinite, best_zero_copy_ = kInfinite;  // of those judged
};

}  // namespace

std::vector<Candidate> weigh(const CandidateQuery& query, const MachineModel& machine,
                             RowProfiles& profiles) {
  return Contest(query, machine, profiles).run();
}

}  // namespace ringwood

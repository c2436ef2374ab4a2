#include "collectives/cost_candidates.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "collectives/compose.h"
#include "collectives/cost_model.h"
#include "collectives/cost_sketch.h"
#include "collectives/interpret.h"
#include "collectives/plan.h"
#include "collectives/protocol.h"
#include "collectives/wire_schedule.h"

namespace ringwood {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Predictions nearer than this are equal: the model is not better than that.
constexpr double kMargin = 1.05;
// A pipeline's lanes are alike once it is filled, so that of many only these are simulated.
constexpr size_t kFewerLanes = 3, kSomeLanes = 6;
// Up to this many steps all lanes are.
constexpr size_t kWholeSteps = 1500;
// What it takes to bind a step, in units of FairShare::work().
constexpr size_t kWorkOfStep = 4;
// Pieces smaller than this are all overhead.
constexpr size_t kLeastLaneBytes = 16 << 10;

class Contest {
 public:
  Contest(const CandidateQuery& query, const Fabric& fabric) : query_(query), fabric_(fabric) {}

  std::vector<Candidate> run() {
    for (const WireFormat wire : {WireFormat::exact, WireFormat::bf16, WireFormat::int8})
      for (const AlgorithmRow* row : query_.rows)
        if (wire == WireFormat::exact || may_encode()) enter(*row, wire);
    if (query_.adds_once) keep_those_that_add_once();
    std::vector<size_t> order;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty()) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return entries_[a].least < entries_[b].least; });
    for (const size_t i : order) {
      if (simulable(i) && entries_[i].least > best_ * least_regret() * kMargin) {
        beaten_.push_back(i);
        continue;
      }
      judge(i, work_ <= kMostWork);
      judged_.push_back(i);
      best_ = std::min(best_, candidates_[i].seconds);
      best_lent_ = std::min(best_lent_, candidates_[i].lent_seconds);
    }
    crown(least_regret());
    for (const size_t i : beaten_) {
      candidates_[i].seconds = candidates_[i].lent_seconds = entries_[i].least;
      candidates_[i].why_not = "slower even at its bound";
      if (query_.all) judge(i, true);
    }
    return std::move(candidates_);
  }

 private:
  struct Built {
    const AlgorithmRow* row = nullptr;
    std::vector<Schedule> schedules;  // of all ranks; empty: too many, and `bounds` are a sketch
    size_t steps = 0;
    WireFormat wire = WireFormat::exact;
    CostBounds bounds;
    std::optional<Prediction> single;  // of one lane
    bool one_round = false;            // the plan of one lane
  };
  struct Entry {
    size_t built = 0;
    double least = 0;  // no execution is faster
  };

  bool simulable(size_t i) const { return !built_[entries_[i].built].schedules.empty(); }

  bool may_encode() const {
    const auto& hosts = fabric_.hosts;
    return query_.tolerance > 0 && query_.bytes >= fabric_.limits.least_encoded &&
           std::find_if(hosts.begin(), hosts.end(), [](int h) { return h != 0; }) != hosts.end();
  }

  void refuse(const AlgorithmRow& row, WireFormat wire, std::string why) {
    candidates_.push_back({row.name, std::max(1, query_.lanes), wire, kInfinite, kInfinite, false,
                           false, std::move(why)});
    entries_.push_back({});
  }

  // As a plan runs it.
  Schedule build(const AlgorithmRow& row, int rank) const {
    return after_agreement(row.build(where(rank)), query_.collective);
  }

  // Why the row's schedules may not be encoded, or nothing.
  std::string objection(const std::vector<Schedule>& schedules, WireFormat wire) const {
    // Whose operand is rounded how often depends on the root where only some links are encoded, so
    // there all are taken to be.
    std::vector<int> host = fabric_.hosts;
    if (has_root(query_.collective)) std::iota(host.begin(), host.end(), 0);
    const WireProof proof = prove_wire(query_.collective, schedules, host);
    if (!proof.equal_bits) return "encoded, its ranks would not end with the same bits";
    const double needed = needed_tolerance(wire, proof.roundings);
    if (needed <= query_.tolerance) return "";
    return fmt::format("rounds {} times, which needs a tolerance of {:.2g}", proof.roundings,
                       needed);
  }

  void enter(const AlgorithmRow& row, WireFormat wire) {
    const int n = query_.n;
    if (!row.accepts(where(0))) {
      if (wire != WireFormat::exact) return;  // it was refused before
      return refuse(
          row, wire,
          fmt::format("not for {} ranks{}", n, fabric_.hosts.empty() ? "" : " placed like these"));
    }
    const Schedule first = build(row, 0);
    // The ranks' lists are about equally long, so that a large one need not be built to be counted.
    const size_t about = first.steps.size() * static_cast<size_t>(n);
    if (about > query_.most_steps || n > kMostSimulated) {
      if (wire == WireFormat::exact) sketch(row, first);
      return;
    }
    Built built;
    built.row = &row;
    built.schedules.push_back(first);
    for (int r = 1; r < n; ++r) built.schedules.push_back(build(row, r));
    if (wire != WireFormat::exact) {
      const std::string why = objection(built.schedules, wire);
      if (!why.empty()) return refuse(row, wire, why);
      for (Schedule& s : built.schedules) s = with_roundings(s, query_.collective, fabric_.hosts);
    }
    built.wire = wire;
    for (const Schedule& s : built.schedules) built.steps += s.steps.size();
    built.one_round = wire == WireFormat::exact && in_one_round(built.schedules);
    const Load whole = load(built, query_.bytes, built.one_round, false);
    built.bounds =
        bounds_of(model_of(plans_of(built.schedules, 1, whole, fabric_), whole, fabric_), fabric_);
    work_ += kWorkOfStep * built.steps;
    std::vector<int> counts = lane_counts(first);
    // Among equals a pipeline: on a wire slower than the figures say, it hides the codecs.
    if (wire != WireFormat::exact && counts.size() > 1) std::swap(counts[0], counts[1]);
    add(std::move(built), counts);
  }

  // A row that is judged by a sketch of its bounds.
  void sketch(const AlgorithmRow& row, const Schedule& first) {
    Built built;
    built.row = &row;
    const Load whole = load(built, query_.bytes, false, false);
    const BuildRank build_rank = [&](int rank) { return build(row, rank); };
    built.bounds = sketch_of(build_rank, query_.n, whole, fabric_);
    sketched_ = true;
    add(std::move(built), lane_counts(first));
  }

  void add(Built built, const std::vector<int>& counts) {
    for (const int count : counts) {
      candidates_.push_back(
          {built.row->name, count, built.wire, kInfinite, kInfinite, false, false, ""});
      // Lanes shorten the chain of waiting steps, but not what the resources have to do.
      entries_.push_back(
          {built_.size(), count == 1 ? built.bounds.lower() : built.bounds.resource});
    }
    built_.push_back(std::move(built));
  }

  Where where(int rank) const { return {rank, query_.n, 0, fabric_.hosts, fabric_.nodes}; }

  bool in_one_round(const std::vector<Schedule>& schedules) const {
    const bool apart = all_apart(fabric_.hosts, query_.n, fabric_.loopback);
    return small_for_one_round(fabric_.limits, query_.collective, query_.bytes, query_.n, apart) &&
           std::all_of(schedules.begin(), schedules.end(), fits_one_round);
  }

  // Where shared buffers make a difference at all.
  bool may_lend() const {
    return fabric_.staged && static_cast<double>(query_.bytes) >= fabric_.lent &&
           !all_apart(fabric_.hosts, query_.n, fabric_.loopback);
  }

  double regret(const Candidate& c) const {
    const auto times = [](double seconds, double best) { return best > 0 ? seconds / best : 1; };
    return std::max(times(c.seconds, best_), times(c.lent_seconds, best_lent_));
  }
  double least_regret() const {
    double least = judged_.empty() ? 1 : kInfinite;
    for (const size_t i : judged_) least = std::min(least, regret(candidates_[i]));
    return least;
  }

  std::vector<int> lane_counts(const Schedule& schedule) const {
    if (query_.lanes > 0) return {std::min(query_.lanes, kMostLanes)};
    if (query_.collective == Collective::barrier || query_.n == 1) return {1};
    const int chunks =
        required_chunks(query_.collective, query_.n) ? 1 : std::max(1, schedule.chunks);
    const size_t message = query_.bytes / static_cast<size_t>(chunks);
    std::vector<int> counts = {1};
    for (size_t grain = query_.lane_bytes, i = 0; i < 3; ++i, grain /= 4) {
      if (i > 0 && grain < kLeastLaneBytes) break;
      const size_t count = std::min<size_t>(message / grain, kMostLanes);
      if (count > static_cast<size_t>(counts.back())) counts.push_back(static_cast<int>(count));
    }
    return counts;
  }

  // If there is one at all. Of rows with too many steps it is not asked: one owner for all operands
  // is `direct`, which among so many ranks costs many times what the others do.
  void keep_those_that_add_once() {
    std::vector<char> keeps;
    for (const Built& built : built_)
      keeps.push_back(!built.schedules.empty() && adds_once(built.schedules));
    if (std::find(keeps.begin(), keeps.end(), true) == keeps.end()) return;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (candidates_[i].why_not.empty() && !keeps[entries_[i].built]) {
        candidates_[i].why_not = "rounds partial sums of a small type more than once";
        judge(i, query_.all);
      }
  }

  Load load(const Built& built, size_t bytes, bool one_round, bool lent) const {
    Load load{query_.collective, bytes, query_.element};
    load.wire = built.wire;
    load.agreement = true;
    load.one_round = one_round;
    load.lent = lent;
    load.of_bytes = query_.bytes;
    load.most_work = kMostWorkEach;
    return load;
  }

  Prediction simulate(const Built& built, int lane_count, size_t bytes, bool lent) {
    const bool one_round = built.one_round && lane_count == 1;
    Prediction p =
        predict(built.schedules, load(built, bytes, one_round, lent), fabric_, lane_count);
    work_ += p.work + kWorkOfStep * built.steps * static_cast<size_t>(lane_count);
    return p;
  }

  const Prediction& single(Built& built) {
    if (!built.single) built.single = simulate(built, 1, query_.bytes, false);
    return *built.single;
  }

  void judge(size_t i, bool may_simulate) {
    Candidate& c = candidates_[i];
    Built& built = built_[entries_[i].built];
    Prediction p;
    p.simulated = false;
    if (may_simulate && simulable(i))
      p = c.lanes == 1 ? single(built) : in_lanes(built, c.lanes, false);
    c.simulated = p.simulated;
    c.seconds = c.lent_seconds = p.simulated ? p.seconds : estimate(built, c.lanes);
    if (!p.simulated || !may_lend() || built.steps > kWholeSteps) return;
    const Prediction lent = in_lanes(built, c.lanes, true);
    if (lent.simulated) c.lent_seconds = lent.seconds;
  }

  // Of many lanes some are simulated, the rest take as long each.
  Prediction in_lanes(Built& built, int lane_count, bool lent) {
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
  double estimate(Built& built, int count) {
    constexpr double kUnknown = 1.25;
    const CostBounds& b = built.bounds;
    if (built.schedules.empty() || (sketched_ && count > 1)) return kUnknown * b.estimate(count);
    double off = kUnknown;
    if ((built.single || work_ <= kMostWork) && single(built).simulated)
      off = built.single->seconds / std::max(1e-12, b.estimate());
    return off * (count == 1 ? b.estimate() : std::max(b.resource + b.latencies, b.path / count));
  }

  // Of those that are about as fast, the one that keeps the busiest resource least busy: what the
  // model leaves out (other work, other groups) is slowed down by the rest.
  void crown(double least_of_all) {
    double least = kInfinite;
    const auto may_win = [&](size_t i) {
      return candidates_[i].why_not.empty() && regret(candidates_[i]) <= least_of_all * kMargin;
    };
    const auto busy = [&](size_t i) { return built_[entries_[i].built].bounds.resource; };
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (may_win(i)) least = std::min(least, busy(i));
    bool crowned = false;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      if (!c.why_not.empty()) continue;
      c.chosen = !crowned && may_win(i) && busy(i) <= least * kMargin;
      crowned = crowned || c.chosen;
      if (!c.chosen)
        c.why_not = !may_win(i)
                        ? (c.seconds <= best_ * kMargin ? "slower with shared buffers" : "slower")
                    : busy(i) > least * kMargin ? "as fast, but with more work"
                                                : "as fast, but after it in the table";
    }
  }

  const CandidateQuery& query_;
  const Fabric& fabric_;
  std::vector<Built> built_;
  std::vector<Candidate> candidates_;
  std::vector<Entry> entries_;  // beside candidates_
  std::vector<size_t> beaten_, judged_;
  double best_ = kInfinite, best_lent_ = kInfinite;  // of those judged
  size_t work_ = 0;
  bool sketched_ = false;  // some rows
};

}  // namespace

std::vector<Candidate> weigh(const CandidateQuery& query, const Fabric& fabric) {
  return Contest(query, fabric).run();
}

namespace {

// Marks the chunks that hold a partial sum: one that was added to.
struct Partial {
  using Value = char;
  bool added_again = false;

  Value begin(int, int) const { return false; }
  Value add(const Move&, Value, Value operand) {
    added_again = added_again || operand;
    return true;
  }
  bool done() const { return added_again; }
};

}  // namespace

bool adds_once(const std::vector<Schedule>& schedules) {
  Partial partial;
  execute(schedules, partial);
  return !partial.added_again;
}

}  // namespace ringwood

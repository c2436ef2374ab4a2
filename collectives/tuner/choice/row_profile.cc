#include "collectives/tuner/choice/row_profile.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "collectives/plan/passes.h"
#include "collectives/tuner/choice/cost_candidates.h"
#include "collectives/tuner/choice/row_lengths.h"
#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {
namespace {

// Limits of what is simulated: steps of a rank and of all ranks of a host, in a quotient; ranks,
// where there is no symmetry.
constexpr size_t kMaxStepsOfARank = 600, kMaxStepsOfAHost = 8192;
constexpr int kMaxWhole = 128;
constexpr int kMaxSibling = 1024;
// Of more ranks only trees, whose ranks have few steps, as they have few children.
constexpr size_t kStepsInALargeGroup = 64;
// So few steps of all ranks are simulated as they are: nothing is saved by less.
constexpr size_t kFewSteps = 1500;
// So many only where there is nothing better, as for a host that is not like the others.
constexpr size_t kSomeSteps = 7000;
// And so many of the longer of two siblings: both together are about kSomeSteps, or they would take
// more work than each row has (cost_candidates.h).
constexpr size_t kStepsOfASibling = kSomeSteps * 2 / 3;
// Hosts of more ranks are reduced where nothing else helps.
constexpr int kManyOnAHost = 16;

size_t far_senders(const Schedule& schedule, const MachineModel& machine) {
  std::set<int> senders;
  for (const Step& step : schedule.steps)
    if (step.peer >= 0 && step.kind != StepKind::send &&
        machine.host_of(step.peer) != machine.host_of(schedule.rank))
      senders.insert(step.peer);
  return senders.size();
}

// Along one axis: two lengths of which the second is larger, and the length of the group.
struct Axis {
  int shorter = 1, longer = 1, whole = 1;
  bool affine = false;

  double extent() const {
    const double s = shorter, l = longer, w = whole;
    return affine ? (w - l) / (l - s) : doublings(w / l) / doublings(l / s);
  }
};

class Profiler {
 public:
  Profiler(const AlgorithmRow& row, Siblings& siblings)
      : row_(row), siblings_(siblings), lengths_(row, siblings) {}

  RowProfile run() {
    const Placement& whole = *siblings_.whole();
    RowProfile p;
    p.row = &row_;
    p.group = whole.machine.size(whole.n);
    if (!row_.accepts(whole.where(0))) {
      p.why_not = fmt::format("not for {} ranks{}", whole.n,
                              whole.hosts.count() == 1 ? "" : " placed like these");
      return p;
    }
    const RowLengths::Lengths& l = lengths(siblings_.whole());
    p.chunks = l.chunks;
    p.messages = l.messages;
    p.chunks_moved = l.chunks_moved;
    p.far_chunks = l.far_chunks;
    p.steps = l.steps * static_cast<size_t>(whole.n);
    p.schedule_steps = l.schedule_steps * static_cast<size_t>(whole.n);
    many_messages_ = l.messages > kMaxStepsOfARank;
    many_steps_ = l.steps > kMaxStepsOfARank;
    find_samples(p);
    const double more = more_between_hosts(p);
    for (RowSample& s : p.samples) s.weight *= more;
    for (const RowSample& s : p.samples)
      for (const Schedule& schedule : s.schedules)
        p.far_senders = std::max(p.far_senders, far_senders(schedule, s.placement->machine));
    return p;
  }

 private:
  Schedule build(const SharedPlacement& on, int rank) const { return lengths_.build(on, rank); }
  const RowLengths::Lengths& lengths(const SharedPlacement& on) { return lengths_.get(on); }

  void find_samples(RowProfile& p) {
    const SharedPlacement& whole = siblings_.whole();
    // A slow host is no slow group: what it delays depends on who waits for it, and when.
    const bool alike = whole->machine.net.exceptions.empty();
    if (all(whole, alike ? kFewSteps : kSomeSteps, p.samples)) return;
    if (whole->regular() && quotient(siblings_.regular(), p.samples)) return add_slow_hosts(p);
    if (all(whole, kSomeSteps, p.samples)) return;
    const SharedPlacement& regular = siblings_.regular();
    const int k = regular->ranks_of_a_host, hosts = regular->hosts.count();
    slow_hosts_ = !alike;
    const bool as_they_are = !alike && by_hosts(hosts, k, p.samples);
    slow_hosts_ = false;
    if (as_they_are || by_hosts(hosts, k, p.samples) || by_ranks(hosts, k, p.samples))
      for (RowSample& s : p.samples) scale(p, s);
    else
      all(whole, kMaxSteps, p.samples);
  }

  // The sample is one host, which stands for all as if all were slow. Who waits for a slow host has
  // others' messages meanwhile, which the slow one gets later and at once: that may take longer
  // than if all were slow, or less.
  void add_slow_hosts(RowProfile& p) {
    if (siblings_.whole()->machine.net.exceptions.empty()) return;
    const SharedPlacement& regular = siblings_.regular();
    const int k = regular->ranks_of_a_host, hosts = regular->hosts.count();
    const bool cut = cut_from_one_buffer(row_.collective);
    for (int fewer = hosts / 2; fewer >= 2; fewer /= 2) {
      const SharedPlacement& on = siblings_.with_slow_hosts(fewer);
      std::vector<RowSample> one, every;
      if (!on || !all(on, kStepsOfASibling, one) || !quotient(siblings_.get(fewer, k), every))
        continue;
      const bool affine = is_affine({hosts, k}, {fewer, k}, every, p.samples);
      const double larger = static_cast<double>(hosts) / fewer;
      const double times = affine ? larger : doublings(hosts) / doublings(fewer);
      for (auto* part : {&one, &every}) {
        RowSample& s = part->front();
        s.weight = part == &one ? times : -times;
        s.same_chunk = affine;
        if (!affine && !cut) s.bytes *= larger;
        scale(p, s);
        p.samples.push_back(std::move(s));
      }
      return;
    }
  }

  // Regular hosts stand for irregular ones. A row that takes ranks by their numbers may keep to the
  // former, and send many times as much between the latter.
  double more_between_hosts(const RowProfile& p) const {
    const SharedPlacement &whole = siblings_.whole(), &regular = siblings_.regular();
    if (whole->regular() || p.samples.empty() || p.samples[0].placement == whole || many_steps_ ||
        !row_.accepts(regular->where(0)))
      return 1;
    const double there = sent_away(regular), here = sent_away(whole);
    return there > 0 ? std::max(1.0, here / there) : 1;
  }

  // By the ranks of a host in the middle, as a multiple of the buffer.
  double sent_away(const SharedPlacement& on) const {
    const std::vector<int>& host = on->hosts.host;
    const auto middle = static_cast<size_t>(on->hosts.count() / 2);
    double sent = 0;
    for (const int rank : on->hosts.ranks[middle]) {
      const Schedule s = build(on, rank);
      for (const Step& step : s.steps)
        if (step.kind == StepKind::send && host[step.peer] != host[rank])
          sent += static_cast<double>(step.src.count) / s.chunks;
    }
    return sent;
  }

  bool quotient(const SharedPlacement& on, std::vector<RowSample>& samples) {
    if (on->hosts.count() == 1 || !row_.accepts(on->where(0))) return false;
    const std::vector<int>& ranks = on->hosts.ranks[0];
    const size_t steps = lengths(on).steps;
    if (steps > kMaxStepsOfARank || steps * ranks.size() > kMaxStepsOfAHost) return false;
    RowSample s{on, {}, {}};
    for (const int r : ranks) s.schedules.push_back(build(on, r));
    s.symmetry = symmetry_of(on, s.schedules, [&](int r) { return build(on, r); });
    if (!s.symmetry || !fits_together(s)) return false;
    for (const Schedule& schedule : s.schedules) s.steps += bound_steps(schedule, row_.collective);
    samples.push_back(std::move(s));
    return true;
  }

  // Every send has its receive, and no steps wait for each other in a cycle.
  bool fits_together(const RowSample& s) const {
    constexpr size_t kBlock = 64;
    const MachineModel& machine = s.placement->machine;
    Load load{row_.collective, kBlock, 1};
    if (cut_from_one_buffer(row_.collective)) load.bytes *= std::max(1, s.schedules[0].chunks);
    try {
      bounds_of(model_of(plans_of(s.schedules, 1, load, machine), load, machine, &*s.symmetry),
                machine);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // Where ranks differ, as in a tree, the two that were counted have more steps than most.
  bool all(const SharedPlacement& on, size_t most, std::vector<RowSample>& samples) {
    const auto n = static_cast<size_t>(on->n);
    if (n > most || !row_.accepts(on->where(0))) return false;
    const RowLengths::Lengths& l = lengths(on);
    const bool many = on->n > kMaxWhole;
    if (many ? l.least_steps > kStepsInALargeGroup : l.steps + (n - 1) * l.least_steps > most)
      return false;
    RowSample s{on, {}, {}};
    for (int r = 0; r < on->n; ++r) {
      s.schedules.push_back(build(on, r));
      s.steps += bound_steps(s.schedules.back(), row_.collective);
      if (s.steps > most) return false;
    }
    samples.push_back(std::move(s));
    return true;
  }

  bool sample(int hosts, int k, bool leaves, std::vector<RowSample>& samples) {
    if (slow_hosts_) {
      const SharedPlacement& on = siblings_.with_slow_hosts(hosts);
      return on && all(on, kStepsOfASibling, samples);
    }
    const SharedPlacement& on = leaves ? siblings_.with_leaves(hosts, k) : siblings_.get(hosts, k);
    return quotient(on, samples) || all(on, leaves ? kSomeSteps : kStepsOfASibling, samples);
  }

  // Samples of this many hosts of k ranks. Best are two that have several leaves each, as the group
  // has: the first doubling that leaves a leaf adds more than another one does.
  bool by_hosts(int hosts, int k, std::vector<RowSample>& samples) {
    if (sample(hosts, k, false, samples)) return true;
    const std::vector<std::pair<int, int>> lengths = pairs(hosts, kMaxSibling / k);
    const auto found = [&](int shorter, int longer, bool leaves) {
      return two(
          longer, shorter, hosts, samples,
          [&](int h, auto& into) { return sample(h, k, leaves, into); },
          [&](int h) {
            return std::pair{h, k};
          });
    };
    // Of a few leaves a rank that sends to all has more peers in its own than it has in the group.
    for (const auto& [shorter, longer] : lengths)
      if (siblings_.with_leaves(shorter, k) && !by_messages({hosts, k}, {longer, k}) &&
          found(shorter, longer, true))
        return true;
    for (const auto& [shorter, longer] : lengths)
      if (found(shorter, longer, false)) return true;
    return false;
  }

  bool by_ranks(int hosts, int k, std::vector<RowSample>& samples) {
    if (k <= kManyOnAHost) return false;
    for (const auto& [shorter, longer] : pairs(k, kManyOnAHost)) {
      if (two(
              longer, shorter, k, samples,
              [&](int ranks, auto& into) { return by_hosts(hosts, ranks, into); },
              [&](int ranks) {
                return std::pair{hosts, ranks};
              }))
        return true;
    }
    return false;
  }

  // Lengths of the two siblings along an axis, the preferred ones first: short ones for rows with
  // many messages; the largest that keep the leading digits of `whole`, so that they lie to powers
  // of two as it does; and others, for rows that do not accept these.
  std::vector<std::pair<int, int>> pairs(int whole, int most) const {
    std::vector<int> longer;
    // Of 4 hosts most are near each other, and a rank of each has few of its messages.
    if (many_messages_) longer.push_back(8);
    // Of few messages of many blocks: the larger the siblings are, the less of what the first
    // messages take is spent while ranks still agree. Very long ones only where they have few
    // ranks, since all their schedules are built.
    for (const int length : {128, 64, 32, 16, 8})
      if (many_steps_ && length <= std::max(32, most / 4)) longer.push_back(length);
    int shift = 1;
    while ((whole >> shift) > std::max(4, most)) ++shift;
    for (; (whole >> shift) >= 4; ++shift) longer.push_back((whole >> shift) & ~1);
    longer.insert(longer.end(), {6, 12});
    std::vector<std::pair<int, int>> result;
    for (const int length : longer)
      if (length < whole) result.emplace_back(length / 2, length);
    return result;
  }

  template <class Sample, class Size>
  bool two(int longer, int shorter, int whole, std::vector<RowSample>& samples,
           const Sample& sample, const Size& size) {
    Axis axis{shorter, longer, whole};
    std::vector<RowSample> small, large;
    if (!sample(shorter, small) || !sample(longer, large)) return false;
    axis.affine = is_affine(size(whole), size(longer), small, large);
    const double f = axis.extent();
    for (auto* part : {&small, &large}) {
      const double times = static_cast<double>(whole) / (part == &small ? shorter : longer);
      for (RowSample& s : *part) {
        s.weight *= part == &small ? -f : 1 + f;
        s.same_chunk = s.same_chunk || axis.affine;
        if (!axis.affine && !cut_from_one_buffer(row_.collective)) s.bytes *= times;
        samples.push_back(std::move(s));
      }
    }
    return true;
  }

  // The messages of a rank grow nearly as the ranks do, from the longer sibling to the group.
  bool by_messages(std::pair<int, int> whole, std::pair<int, int> longer) {
    const SharedPlacement &a = siblings_.get(whole.first, whole.second),
                          &b = siblings_.get(longer.first, longer.second);
    const auto accepted = [&](const SharedPlacement& p) { return row_.accepts(p->where(0)); };
    if (!accepted(a) || !accepted(b)) return false;
    const auto before = static_cast<double>(lengths(b).messages),
               after = static_cast<double>(lengths(a).messages);
    constexpr double kMoreThanLogarithmic = 1.2;
    return after * after > before * before * a->n / b->n * kMoreThanLogarithmic;
  }

  // They do; or the chain of steps that wait for each other does, from sibling to sibling.
  bool is_affine(std::pair<int, int> whole, std::pair<int, int> longer,
                 const std::vector<RowSample>& small, const std::vector<RowSample>& large) {
    if (by_messages(whole, longer)) return true;
    const RowSample &s = small.back(), &l = large.back();
    const double as_chains = (l.placement->n - 1.0) / std::max(1.0, s.placement->n - 1.0);
    const double as_trees = doublings(l.placement->n) / std::max(1.0, doublings(s.placement->n));
    const double before = chain(s), after = chain(l);
    return after * after > before * before * as_chains * as_trees;
  }

  // The number of messages of the longest chain.
  double chain(const RowSample& s) const {
    MachineModel f = s.placement->machine;
    f.look = f.net.latency = 1;
    f.call = f.post = f.latency = f.node_latency = f.yield = f.net.post = 0;
    Load load{row_.collective, 64, 1};
    if (cut_from_one_buffer(row_.collective)) load.bytes *= std::max(1, s.schedules[0].chunks);
    const HostSymmetry* symmetry = s.symmetry ? &*s.symmetry : nullptr;
    return bounds_of(model_of(plans_of(s.schedules, 1, load, f), load, f, symmetry), f).latencies;
  }

  // Wherever its chunks lie, caches contain as much of them as of the group's. A rank of a gather
  // moves all blocks but its own: as many bytes in both siblings and in the group, or what a
  // doubling adds would be taken for what each further one adds.
  void scale(const RowProfile& p, RowSample& s) const {
    const double n = siblings_.whole()->n;
    const bool gathers =
        row_.collective == Collective::all_gather || row_.collective == Collective::reduce_scatter;
    if (gathers && !s.same_chunk && s.placement->n > 1) s.bytes = (n - 1) / (s.placement->n - 1);
    if (!cut_from_one_buffer(row_.collective))
      s.of_bytes = n / s.placement->n;
    else if (s.same_chunk && p.chunks > 0)
      s.bytes = static_cast<double>(s.schedules[0].chunks) / p.chunks;
  }

  const AlgorithmRow& row_;
  Siblings& siblings_;
  bool many_messages_ = false, many_steps_ = false;  // of a rank
  bool slow_hosts_ = false;                          // samples have them
  RowLengths lengths_;
};

}  // namespace

RowProfile profile_of(const AlgorithmRow& row, Siblings& siblings) {
  return Profiler(row, siblings).run();
}

}  // namespace ringwood

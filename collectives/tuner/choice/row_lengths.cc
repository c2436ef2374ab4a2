#include "collectives/tuner/choice/row_lengths.h"

#include <algorithm>
#include <set>

#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

// In groups of more ranks, rows with n messages a rank are not built as long as they are.
constexpr int kManyRanks = 1024;
// Of so many ranks of the first host what crosses is counted: all of them together have no less.
constexpr size_t kCountedOfAHost = 16;

// What a rank moves in one direction and in the other one.
struct Moved {
  size_t sent = 0, received = 0;

  void add(const Step& step) {
    (step.kind == StepKind::send ? sent : received) +=
        static_cast<size_t>(std::max(step.dst.count, step.src.count));
  }
  size_t most() const { return std::max(sent, received); }
};

}  // namespace

Schedule RowLengths::build(const SharedPlacement& on, int rank) const {
  return after_agreement(row_.build(on->where(rank)), row_.collective);
}

const RowLengths::Lengths& RowLengths::get(const SharedPlacement& on) {
  const auto known = known_.find(on.get());
  if (known != known_.end()) return known->second;
  const std::optional<Lengths> extended = on->n > kManyRanks ? in_proportion(on) : std::nullopt;
  return known_.emplace(on.get(), extended ? *extended : counted(on)).first->second;
}

RowLengths::Lengths RowLengths::counted(const SharedPlacement& on) const {
  const std::vector<int>& host = on->hosts.host;
  std::set<int> of_host;
  if (on->hosts.count() > 1)
    for (const int rank : on->hosts.ranks[0])
      if (of_host.size() < kCountedOfAHost) of_host.insert(rank);
  std::set<int> built = of_host;
  built.insert({0, std::min(1, on->n - 1)});
  Lengths l;
  Moved far;
  for (const int rank : built) {
    Schedule s = build(on, rank);
    for (const Step& step : s.steps)
      if (of_host.contains(rank) && step.peer >= 0 && host[step.peer] != host[rank]) far.add(step);
    if (rank > 1) continue;
    l.chunks = s.chunks;
    const size_t steps = bound_steps(s, row_.collective);
    l.least_steps = rank == 0 ? steps : std::min(l.least_steps, steps);
    l.steps = std::max(l.steps, steps);
    l.schedule_steps = std::max(l.schedule_steps, s.steps.size());
    std::erase_if(s.steps, [](const Step& step) { return step.peer < 0; });
    size_t messages = 0;
    for (size_t i = 0; i < s.steps.size(); i = end_of_message(s.steps, i)) ++messages;
    l.messages = std::max(l.messages, messages);
    Moved all;
    for (const Step& step : s.steps) all.add(step);
    l.chunks_moved = std::max(l.chunks_moved, all.most());
  }
  l.far_chunks = far.most();
  return l;
}

// Of rows with n messages a rank, without building them at this length.
std::optional<RowLengths::Lengths> RowLengths::in_proportion(const SharedPlacement& on) {
  constexpr int kFewHosts = 4;
  const SharedPlacement& regular = siblings_.regular();
  if (regular->hosts.count() < 4 * kFewHosts) return {};
  const int k = regular->ranks_of_a_host;
  const SharedPlacement &a = siblings_.get(kFewHosts, k), &b = siblings_.get(2 * kFewHosts, k);
  if (!row_.accepts(a->where(0)) || !row_.accepts(b->where(0))) return {};
  const Lengths before = get(a), after = get(b);
  constexpr double kNearlyTwice = 1.8;
  if (after.messages < kNearlyTwice * before.messages) return {};
  const double times = static_cast<double>(on->n) / b->n;
  const auto grown = [&](size_t x) { return static_cast<size_t>(static_cast<double>(x) * times); };
  Lengths l{grown(after.steps),
            grown(after.messages),
            grown(after.chunks_moved),
            grown(after.far_chunks),
            grown(after.schedule_steps),
            grown(after.least_steps),
            after.chunks};
  if (after.chunks != before.chunks) l.chunks = static_cast<int>(after.chunks * times);
  return l;
}

}  // namespace ringwood

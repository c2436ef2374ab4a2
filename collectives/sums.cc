#include "collectives/sums.h"

#include <algorithm>
#include <deque>
#include <map>

#include "collectives/rows.h"
#include "collectives/verify_expressions.h"
#include "collectives/wire_schedule.h"

namespace ringwood {
namespace {

bool adds(StepKind kind) { return kind == StepKind::recv_reduce || kind == StepKind::reduce; }

// Runs all ranks one after the other, as far as each gets, on symbols.
class Trace {
 public:
  explicit Trace(const std::vector<Schedule>& all)
      : all_(all), expressions_(static_cast<int>(all.size()), all[0].chunks) {
    for (const Schedule& s : all) {
      rows_.push_back(rows_of(s));
      values_.emplace_back(s.chunks + s.scratch.size());
      for (int c = 0; c < s.chunks; ++c)
        values_.back()[c] = {expressions_.leaf(s.rank, c), 1, s.rank};
    }
    at_.assign(all.size(), 0);
    sums_.steps.resize(all.size());
  }

  // False: a span's chunks differ.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < all_.size(); ++r)
        for (; at_[r] < all_[r].steps.size() && step(r); ++at_[r]) moved = true;
    }
    return alike_;
  }

  Sums take(Collective collective) {
    if (collective == Collective::all_reduce)
      for (const auto& values : values_)
        for (int c = 0; c < all_[0].chunks; ++c)
          sums_.rows_agree = sums_.rows_agree && values[c].what == values_[0][c].what;
    return std::move(sums_);
  }

 private:
  struct Value {
    Expressions::Id what = Expressions::kNothing;
    int32_t ranks = 0;  // how many are in it
    int32_t own = -1;   // the one that is
  };
  using Values = std::vector<Value>;

  Values span_of(size_t rank, Span span) const {
    const auto begin = values_[rank].begin() + span.first;
    return {begin, begin + span.count};
  }

  // False: what it receives has not been sent yet.
  bool step(size_t rank) {
    const Step& step = all_[rank].steps[at_[rank]];
    const int me = static_cast<int>(rank);
    Values operand = span_of(rank, step.src);
    if (step.kind == StepKind::send) {
      links_[{me, step.peer}].push_back(std::move(operand));
      return true;
    }
    if (step.peer >= 0) {
      auto& link = links_[{step.peer, me}];
      if (link.empty()) return false;
      operand = std::move(link.front());
      link.pop_front();
    }
    if (adds(step.kind)) add(rank, step, operand);
    std::copy(operand.begin(), operand.end(), values_[rank].begin() + step.dst.first);
    return true;
  }

  // Makes the sum of the operand.
  void add(size_t rank, const Step& step, Values& operand) {
    const RowPlace place = rows_[rank][at_[rank]];
    const Values before = span_of(rank, step.dst);
    SumStep first;
    for (size_t i = 0; i < operand.size(); ++i) {
      Value& value = operand[i];
      SumStep found{before[i].own, value.own, false};
      const Expressions::Id sum = expressions_.sum(before[i].what, value.what);
      value = {place.last ? expressions_.rounded(sum) : sum, before[i].ranks + value.ranks, -1};
      found.completes = value.ranks == static_cast<int32_t>(all_.size());
      if (i == 0) first = found;
      alike_ = alike_ && found == first;
    }
    const bool own = first.src >= 0 && (first.dst >= 0) == place.first;
    sums_.whole = sums_.whole && own && first.completes == place.last;
    sums_.steps[rank].push_back(first);
  }

  const std::vector<Schedule>& all_;
  Expressions expressions_;
  std::vector<std::vector<RowPlace>> rows_;
  std::vector<Values> values_;  // by rank and chunk
  std::vector<size_t> at_;      // by rank: the next step
  std::map<std::pair<int, int>, std::deque<Values>> links_;
  bool alike_ = true;
  Sums sums_;
};

}  // namespace

Sums trace_sums(Collective collective, const std::vector<Schedule>& all) {
  Trace trace(all);
  if (trace.run()) return trace.take(collective);
  std::vector<Schedule> chunks;
  for (const Schedule& s : all) chunks.push_back(with_roundings(s, collective, {}));
  Trace each(chunks);
  each.run();
  Sums sums = each.take(collective);
  sums.apart = true;
  return sums;
}

}  // namespace ringwood

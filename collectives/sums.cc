#include "collectives/sums.h"

#include <algorithm>
#include <unordered_map>

#include "collectives/rows.h"
#include "collectives/verify_expressions.h"
#include "collectives/wire_schedule.h"

namespace ringwood {
namespace {

bool adds(StepKind kind) { return kind == StepKind::recv_reduce || kind == StepKind::reduce; }

// Runs all ranks one after the other, as far as each gets, on symbols: whole expressions, or only
// names for complete sums, each one's own, which is 10 times as fast.
class Trace {
 public:
  Trace(const std::vector<Schedule>& all, bool whole_expressions)
      : all_(all),
        whole_expressions_(whole_expressions),
        expressions_(static_cast<int>(all.size()), all[0].chunks) {
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

  bool same_on_all_ranks() const {
    for (const Values& values : values_)
      for (int c = 0; c < all_[0].chunks; ++c)
        if (values[c].what != values_[0][c].what) return false;
    return true;
  }
  Sums take() { return std::move(sums_); }

 private:
  struct Value {
    Expressions::Id what = Expressions::kNothing;
    int32_t ranks = 0;  // how many are in it
    int32_t own = -1;   // the one that is
  };
  using Values = std::vector<Value>;
  // What is on its way from one rank to another.
  struct Link {
    Values values;
    size_t taken = 0;
  };
  Link& link(int from, int to) { return links_[static_cast<uint64_t>(from) << 32 | to]; }

  // False: what it receives has not been sent yet.
  bool step(size_t rank) {
    const Step& step = all_[rank].steps[at_[rank]];
    const int me = static_cast<int>(rank);
    const auto source = values_[rank].begin() + step.src.first;
    if (step.kind == StepKind::send) {
      Values& sent = link(me, step.peer).values;
      sent.insert(sent.end(), source, source + step.src.count);
      return true;
    }
    operand_.assign(source, source + step.src.count);
    if (step.peer >= 0) {
      Link& from = link(step.peer, me);
      const size_t count = static_cast<size_t>(step.dst.count);
      if (from.values.size() - from.taken < count) return false;
      const auto begin = from.values.begin() + static_cast<long>(from.taken);
      operand_.assign(begin, begin + step.dst.count);
      from.taken += count;
      if (from.taken == from.values.size()) from = {};
    }
    if (adds(step.kind)) add(rank, step);
    std::copy(operand_.begin(), operand_.end(), values_[rank].begin() + step.dst.first);
    return true;
  }

  // Makes the sum of the operand.
  void add(size_t rank, const Step& step) {
    const RowPlace place = rows_[rank][at_[rank]];
    const auto before = values_[rank].begin() + step.dst.first;
    SumStep first;
    for (size_t i = 0; i < operand_.size(); ++i) {
      const Value value = operand_[i], &old = before[static_cast<long>(i)];
      Value& sum = operand_[i];
      sum.ranks = old.ranks + value.ranks;
      sum.own = -1;
      const bool completes = sum.ranks == static_cast<int32_t>(all_.size());
      if (!whole_expressions_) {
        sum.what = completes ? ++names_ : Expressions::kNothing;
      } else {
        sum.what = expressions_.sum(old.what, value.what);
        if (place.last) sum.what = expressions_.rounded(sum.what);
      }
      const SumStep found{old.own, value.own, completes};
      if (i == 0) first = found;
      alike_ = alike_ && found == first;
    }
    const bool own = first.src >= 0 && (first.dst >= 0) == place.first;
    sums_.whole = sums_.whole && own && first.completes == place.last;
    sums_.steps[rank].push_back(first);
  }

  const std::vector<Schedule>& all_;
  const bool whole_expressions_;
  Expressions expressions_;
  Expressions::Id names_ = Expressions::kNothing;
  std::vector<std::vector<RowPlace>> rows_;
  std::vector<Values> values_;  // by rank and chunk
  std::vector<size_t> at_;      // by rank: the next step
  std::unordered_map<uint64_t, Link> links_;
  Values operand_;  // of the step at hand
  bool alike_ = true;
  Sums sums_;
};

}  // namespace

Sums trace_sums(Collective collective, const std::vector<Schedule>& all) {
  Trace trace(all, false);
  if (trace.run()) {
    bool agree = collective != Collective::all_reduce || trace.same_on_all_ranks();
    if (!agree) {
      Trace expressions(all, true);
      expressions.run();
      agree = expressions.same_on_all_ranks();
    }
    Sums sums = trace.take();
    sums.rows_agree = agree;
    return sums;
  }
  std::vector<Schedule> chunks;
  for (const Schedule& s : all) chunks.push_back(with_roundings(s, collective, {}));
  Sums sums = trace_sums(collective, chunks);
  sums.apart = true;
  return sums;
}

}  // namespace ringwood

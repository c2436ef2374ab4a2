#include "collectives/plan/sums.h"

#include "collectives/plan/wire_schedule.h"
#include "collectives/schedule/accumulations.h"
#include "collectives/schedule/interpret.h"
#include "collectives/verify/verify_expressions.h"

namespace ringwood {
namespace {

// What a chunk contains: a whole expression, or only a name for each complete sum, which is 10
// times as fast.
class Trace {
 public:
  struct Value {
    Expressions::Id what = Expressions::kNothing;
    int32_t ranks = 0;  // how many operands it has
    int32_t own = -1;   // the rank, if there is only one
  };

  Trace(GroupSchedules all, bool whole_expressions)
      : all_(all),
        n_(all.size()),
        chunks_(all[0].chunks),
        whole_expressions_(whole_expressions),
        expressions_(n_, chunks_) {
    for (int list = 0; list < all.lists(); ++list)
      places_.push_back(accumulations_of(all[all.first_of(list)].schedule()));
    sums_.steps.resize(all.size());
    values_ = execute(all, *this);
  }

  Value begin(int rank, int chunk) const { return {expressions_.leaf(rank, chunk), 1, rank}; }

  Value add(const Move& m, const Value& target, const Value& operand) {
    const AccumulationPlace place = places_[all_.list(m.to)][m.to_step];
    Value sum{Expressions::kNothing, target.ranks + operand.ranks, -1};
    const bool completes = sum.ranks == n_;
    if (!whole_expressions_) {
      if (completes) sum.what = ++names_;
    } else {
      sum.what = expressions_.sum(target.what, operand.what);
      if (place.last) sum.what = expressions_.rounded(sum.what);
    }
    const SumStep found{target.own, operand.own, completes};
    std::vector<SumStep>& steps = sums_.steps[m.to];
    if (m.first) {
      const bool own = found.src >= 0 && (found.dst >= 0) == place.first;
      sums_.whole = sums_.whole && own && completes == place.last;
      steps.push_back(found);
    }
    alike_ = alike_ && found == steps.back();
    return sum;
  }

  // Whether this is true of all chunks of each span.
  bool alike() const { return alike_; }
  bool same_on_all_ranks() const {
    for (const auto& values : values_)
      for (int c = 0; c < chunks_; ++c)
        if (values[c].what != values_[0][c].what) return false;
    return true;
  }
  Sums take() { return std::move(sums_); }

 private:
  const GroupSchedules all_;
  const int n_, chunks_;
  const bool whole_expressions_;
  Expressions expressions_;
  Expressions::Id names_ = Expressions::kNothing;
  std::vector<std::vector<AccumulationPlace>> places_;  // by list and step
  ChunkValues<Value> values_;                           // at the end
  bool alike_ = true;
  Sums sums_;
};

}  // namespace

Sums trace_sums(Collective collective, GroupSchedules all) {
  Trace trace(all, false);
  if (trace.alike()) {
    bool agree = !ends_in_same_sums(collective) || trace.same_on_all_ranks();
    if (!agree) agree = Trace(all, true).same_on_all_ranks();
    Sums sums = trace.take();
    sums.accumulations_agree = agree;
    return sums;
  }
  std::vector<Schedule> chunks;
  for (int rank = 0; rank < all.size(); ++rank)
    chunks.push_back(with_roundings(all[rank].schedule(), collective, {}));
  Sums sums = trace_sums(collective, chunks);
  sums.apart = true;
  return sums;
}

}  // namespace ringwood

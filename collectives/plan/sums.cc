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

  // `keeps_steps`: take() returns them.
  Trace(GroupSchedules all, bool whole_expressions, bool keeps_steps)
      : all_(all),
        n_(all.size()),
        chunks_(all[0].chunks),
        whole_expressions_(whole_expressions),
        keeps_steps_(keeps_steps),
        expressions_(n_, chunks_),
        found_(all.size()) {
    for (int list = 0; list < all.lists(); ++list) {
      const std::vector<AccumulationPlace> places =
          accumulations_of(all[all.first_of(list)].schedule());
      std::vector<Ends>& ends = ends_.emplace_back();
      ends.reserve(places.size());
      for (const AccumulationPlace& place : places) ends.push_back({place.first, place.last});
    }
    sums_.steps.resize(keeps_steps ? all.size() : 0);
    values_ = execute(all, *this);
  }

  Value begin(int rank, int chunk) const { return {expressions_.leaf(rank, chunk), 1, rank}; }

  Value add(const Move& m, const Value& target, const Value& operand) {
    const Ends ends = ends_[all_.list(m.to)][m.to_step];
    Value sum{Expressions::kNothing, target.ranks + operand.ranks, -1};
    const bool completes = sum.ranks == n_;
    if (!whole_expressions_) {
      if (completes) sum.what = ++names_;
    } else {
      sum.what = expressions_.sum(target.what, operand.what);
      if (ends.last) sum.what = expressions_.rounded(sum.what);
    }
    const SumStep found{target.own, operand.own, completes};
    if (m.first) {
      const bool own = found.src >= 0 && (found.dst >= 0) == ends.first;
      sums_.whole = sums_.whole && own && completes == ends.last;
      found_[m.to] = found;
      if (keeps_steps_) sums_.steps[m.to].push_back(found);
    }
    alike_ = alike_ && found == found_[m.to];
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
  // Whether a reduction is the first or last one of its accumulation.
  struct Ends {
    bool first : 1, last : 1;
  };

  const GroupSchedules all_;
  const int n_, chunks_;
  const bool whole_expressions_, keeps_steps_;
  Expressions expressions_;
  Expressions::Id names_ = Expressions::kNothing;
  std::vector<std::vector<Ends>> ends_;  // by list and step
  std::vector<SumStep> found_;           // by rank: of its last reduction's first chunk
  ChunkValues<Value> values_;            // at the end
  bool alike_ = true;
  Sums sums_;
};

bool agree(Collective collective, GroupSchedules all, const Trace& trace) {
  return !ends_in_same_sums(collective) || trace.same_on_all_ranks() ||
         Trace(all, true, false).same_on_all_ranks();
}

// A chunk a step.
std::vector<Schedule> split(Collective collective, GroupSchedules all) {
  std::vector<Schedule> chunks;
  for (int rank = 0; rank < all.size(); ++rank)
    chunks.push_back(with_roundings(all[rank].schedule(), collective, {}));
  return chunks;
}

}  // namespace

Sums trace_sums(Collective collective, GroupSchedules all) {
  Trace trace(all, false, true);
  if (trace.alike()) {
    Sums sums = trace.take();
    sums.accumulations_agree = agree(collective, all, trace);
    return sums;
  }
  Sums sums = trace_sums(collective, split(collective, all));
  sums.apart = true;
  return sums;
}

bool accumulations_agree(Collective collective, GroupSchedules all) {
  const Trace trace(all, false, false);
  if (trace.alike()) return agree(collective, all, trace);
  return accumulations_agree(collective, split(collective, all));
}

}  // namespace ringwood

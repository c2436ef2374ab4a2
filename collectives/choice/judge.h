// The predicted time of rows that are ready (built_rows.h), within the budget of cost_candidates.h:
// by a simulation, of some lanes for many, or by an estimate from bounds. Part of it.
#pragma once

#include <cstddef>

#include "collectives/choice/built_rows.h"

namespace ringwood {

class CostJudge final {
 public:
  struct Times {
    double seconds = 0, lent_seconds = 0;  // as in Candidate
    bool simulated = false;
  };

  // Both are the caller's memory.
  CostJudge(const CandidateQuery& query, const Fabric& fabric) : query_(query), fabric_(fabric) {}

  // A row takes part. Every one does before the first is judged.
  void enter(const BuiltRow& built);
  // What was done so far is within kMostWork.
  bool within_budget() const { return work_ <= kMostWork; }
  Times judge(BuiltRow& built, int lane_count, bool may_simulate);

 private:
  // Where shared buffers make a difference at all.
  bool may_lend() const;
  Prediction simulate(const BuiltRow& built, int lane_count, size_t bytes, bool lent);
  const Prediction& single(BuiltRow& built);
  Prediction in_lanes(const BuiltRow& built, int lane_count, bool lent);
  double estimate(BuiltRow& built, int count);

  const CandidateQuery& query_;
  const Fabric& fabric_;
  size_t work_ = 0;
  bool sketched_ = false;  // some rows
};

}  // namespace ringwood

// Predicts the time of prepared rows (built_rows.h), within the budget of cost_candidates.h: by
// simulation of its samples (row_profile.h), and of some segments where there are many, or by an
// estimate from bounds. Part of cost_candidates.h.
#pragma once

#include <cstddef>

#include "collectives/choice/built_rows.h"

namespace ringwood {

class CostJudge final {
 public:
  struct Times {
    double seconds = 0, zero_copy_seconds = 0;  // as in Candidate
    bool simulated = false;
    bool extended = false;  // from siblings of the group
  };

  // Both are memory of the caller.
  CostJudge(const CandidateQuery& query, const MachineModel& machine)
      : query_(query), machine_(machine) {}

  // Enters a row. All rows must be entered before the first is judged.
  void enter(const BuiltRow& built);
  // The work done so far is within kMaxWork.
  bool within_budget() const { return work_ <= kMaxWork; }
  Times judge(BuiltRow& built, int segment_count, bool may_simulate);

 private:
  // Whether shared buffers make a difference at all.
  bool may_zero_copy() const;
  Prediction simulate(BuiltRow& built, int segment_count, size_t bytes, bool zero_copy);
  const Prediction& single(BuiltRow& built);
  Prediction in_segments(BuiltRow& built, int segment_count, bool zero_copy);
  double estimate(BuiltRow& built, int count);

  const CandidateQuery& query_;
  const MachineModel& machine_;
  size_t work_ = 0;
};

}  // namespace ringwood

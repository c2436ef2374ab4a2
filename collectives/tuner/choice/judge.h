// Predicts the time of prepared rows (built_rows.h), within the budget of cost_candidates.h: by
// simulation of its samples (row_profile.h), and of two segments where there are many, or by an
// estimate from bounds; and more exactly once it is known which rows may be the fastest. Part of
// cost_candidates.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "collectives/tuner/choice/built_rows.h"

namespace ringwood {

// The nearest number of 20 binary digits behind the first one. Costs are compared in such steps, so
// that the last bits, in which processors or compilers could differ, decide nothing but where two
// costs lie at a step's border.
double in_steps(double seconds);

class CostJudge final {
 public:
  struct Times {
    double seconds = 0, zero_copy_seconds = 0;  // as in Candidate
    bool simulated = false;
    bool exact = false;     // all segments were
    bool extended = false;  // from siblings of the group
  };
  struct Refined {
    double seconds = 0;
    bool exact = false;  // as in Times
  };

  // Both are memory of the caller.
  CostJudge(const CandidateQuery& query, const MachineModel& machine)
      : query_(query), machine_(machine) {}

  // Each row before it is judged, once it is bound.
  void enter(const BuiltRow& built);
  size_t work() const { return entered_ + exact_work_ + encoded_work_ + refining_work_; }
  // The work done so far to simulate rows in exact form, or those in wire formats, is within
  // kMaxWork, with that of binding rows. Each has its own, or those in three forms would leave
  // too little for the exact ones.
  bool within_budget(const BuiltRow& built) const {
    return work_of(built) + entered_ <= kMaxWork * work_times(machine_);
  }
  // Of many segments, about, from what is known about one.
  double expected(const BuiltRow& built, int segment_count) const;
  // `worth`: of candidates that take longer with private buffers shared ones are not simulated.
  Times judge(BuiltRow& built, int segment_count, bool may_simulate, double worth);
  // More exactly, with private or (`zero_copy`) shared buffers, by other work than kMaxWork: what
  // judge() did not simulate or knows from few segments. Nothing where as much as a choice for
  // operations of this many seconds may take does not suffice.
  std::optional<Refined> refine(BuiltRow& built, int segment_count, double seconds, bool zero_copy);
  // Of what a row takes with private buffers, what it takes with shared ones, as far as known.
  double shared_part(const BuiltRow& built) const;

  // Whether shared buffers make a difference at all.
  bool may_zero_copy() const;

 private:
  Prediction simulate(BuiltRow& built, int segment_count, size_t bytes, bool zero_copy);
  const Prediction& single(BuiltRow& built, bool zero_copy);
  const Prediction& in_parts(BuiltRow& built, int segment_count, bool zero_copy);
  Prediction in_segments(BuiltRow& built, int segment_count, bool zero_copy);
  Prediction pipeline(BuiltRow& built, int segment_count, bool zero_copy);
  static double off(const BuiltRow& built);
  static bool simulates_all(const BuiltRow& built, int segment_count);
  double estimate(BuiltRow& built, int count);
  // `most`: of work, for all that is refined; nothing where that does not suffice.
  std::optional<double> some_of(BuiltRow& built, const RowSample& s, int count, int segment_count,
                                size_t most, bool zero_copy);
  std::optional<Refined> segments_of(BuiltRow& built, const RowSample& s, int segment_count,
                                     size_t most, bool zero_copy);
  bool refine_single(BuiltRow& built, size_t most);
  Times times_of(BuiltRow& built, int segment_count, bool may_simulate, double worth);

  size_t& work_of(const BuiltRow& built) {
    return built.wire == WireFormat::exact ? exact_work_ : encoded_work_;
  }
  size_t work_of(const BuiltRow& built) const {
    return built.wire == WireFormat::exact ? exact_work_ : encoded_work_;
  }

  const CandidateQuery& query_;
  const MachineModel& machine_;
  double least_off_ = std::numeric_limits<double>::infinity();  // off() of any row so far
  size_t entered_ = 0;                                          // to bind rows
  size_t exact_work_ = 0, encoded_work_ = 0, refining_work_ = 0;
};

}  // namespace ringwood

// How much a row's schedules have to do, as its ranks count it: what decides how the row is costed
// (row_profile.h), found without binding them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/siblings.h"

namespace ringwood {

// Of one row. Not thread-safe.
class RowLengths final {
 public:
  // Of a rank's schedule, of two of them the longer: rank 0 may be the root.
  struct Lengths {
    size_t steps = 0, messages = 0, chunks_moved = 0;  // steps: at most, once it is bound
    // Of some ranks of the first host together: the chunks that they send to other hosts, or
    // receive from there if those are more.
    size_t far_chunks = 0;
    size_t schedule_steps = 0;
    size_t least_steps = 0;  // of the shorter one: where rank 0 does most, as others have
    int chunks = 0;
  };

  // `siblings` is memory of the caller.
  RowLengths(const AlgorithmRow& row, Siblings& siblings) : row_(row), siblings_(siblings) {}

  // The schedule as a plan runs it.
  Schedule build(const SharedPlacement& on, int rank) const;
  // In large groups those of rows with n messages a rank are extended from smaller ones, not
  // counted: so long schedules are not built.
  const Lengths& get(const SharedPlacement& on);

 private:
  Lengths counted(const SharedPlacement& on) const;
  std::optional<Lengths> in_proportion(const SharedPlacement& on);

  const AlgorithmRow& row_;
  Siblings& siblings_;
  std::map<const Placement*, Lengths> known_;
};

}  // namespace ringwood

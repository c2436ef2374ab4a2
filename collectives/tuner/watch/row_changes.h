// What becomes of the collectives in use when the parameters change, in words for the log. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/machine/machine_model.h"

namespace ringwood {

// A collective of one size class.
struct RowChange {
  Collective collective = Collective::all_reduce;
  size_t bytes = 0;  // of the whole buffer, or of one block
  TuningChoice before, after;
  // Predicted with the new parameters; the first is infinite where the row cannot be chosen.
  double before_seconds = 0, after_seconds = 0;
};

// `candidates`: of explain() with the new parameters.
RowChange row_change(Collective collective, size_t bytes, const TuningChoice& before,
                     const std::vector<Candidate>& candidates);
// "all_reduce of 1048576 B by ring in 8 segments instead of direct, expected 12.3 ms instead of
// 40.1; broadcast ..."; the first of them only where there are many.
std::string print(const std::vector<RowChange>& changes);
// A row that takes another's place is faster by this part of its own time.
inline constexpr double kGain = 0.1;
bool worthwhile(const std::vector<RowChange>& changes);
// Measured twice, it may be the same network: no rate differs by kSameRate, nor a latency by a
// factor of 2.
inline constexpr double kSameRate = 0.2;
bool alike(const NetworkParameters& a, const NetworkParameters& b);
// By `b` hosts, or one of them, or one of its rails, send more than by `a`.
bool worse(const NetworkParameters& a, const NetworkParameters& b);
// "host-b reaches 25 % of its rate", or nothing where nothing differs. `before` and `after` are
// those of one group.
std::string print_difference(const NetworkParameters& before, const NetworkParameters& after);

}  // namespace ringwood

// Builds the schedules of single ranks, with their sizes, on demand: the input of a sketch
// (cost_sketch.h). Internal to the cost model.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/cost/cost_prices.h"
#include "collectives/cost/cost_sketch.h"

namespace ringwood {

struct BuiltRank {
  Schedule schedule;
  std::shared_ptr<const std::vector<double>> first_byte;  // of each chunk, and an end
  CostRank rates;                                         // Prices::set_rates()

  double bytes(const Step& step) const {
    const Span span = step.dst.count ? step.dst : step.src;
    return (*first_byte)[span.first + span.count] - (*first_byte)[span.first];
  }
};

class Builder final {
 public:
  // All arguments are memory of the caller.
  Builder(const BuildRank& build, const Load& load) : build_(build), load_(load) {}
  BuiltRank operator()(int rank);  // does not set `rates`

 private:
  const BuildRank& build_;
  const Load& load_;
  // Of the schedule that was built last: most algorithms cut the buffers of all ranks alike.
  std::shared_ptr<const std::vector<double>> first_byte_;
  int chunks_ = 0;
  std::vector<int> scratch_;
};

inline bool sends(const Step& step) { return step.kind == StepKind::send; }
inline bool receives(const Step& step) { return step.peer >= 0 && !sends(step); }

// The number of messages that the plan makes of a step's one; the user has `chunks`.
inline int parts_of(const Step& step, Collective collective, int chunks) {
  const Span span = step.dst.count ? step.dst : step.src;
  return cut_from_one_buffer(collective) || span.first >= chunks ? 1 : span.count;
}

}  // namespace ringwood

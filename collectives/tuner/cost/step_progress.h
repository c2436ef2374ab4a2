// The progress of each rank through its steps in a simulation (cost.h), with the times of the steps
// of some of them. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/schedule/graph.h"
#include "collectives/tuner/cost/cost.h"

namespace ringwood {

class StepProgress final {
 public:
  // By rank what its steps wait for: memory of the caller.
  explicit StepProgress(std::vector<const Graph*> graphs);

  // To be called before the first step: the time line has the steps of these ranks, so many at
  // most.
  void trace(const std::vector<int>& ranks, size_t most_intervals);

  int32_t steps(int rank) const {
    return static_cast<int32_t>(first_[static_cast<size_t>(rank) + 1] - first_[rank]);
  }
  // The step waits for no other step.
  bool free(int rank, int32_t step) const { return pending_[number(rank, step)] == 0; }
  // The first work is done for the step.
  void begin(int rank, int32_t step, double now) {
    if (double* const began = traced(rank, step); began && *began < 0) *began = now;
  }
  // The step is over: calls ready(step) for each step that waited for nothing else.
  template <class Ready>
  void finish(int rank, int32_t step, double now, const Ready& ready) {
    record(rank, step, now);
    const Graph& graph = *graphs_[rank];
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k)
      if (--pending_[number(rank, graph.successor[k])] == 0) ready(graph.successor[k]);
  }
  // The rank is not finished before this time.
  void at_least(int rank, double now) {
    result_.finish[rank] = std::max(result_.finish[rank], now);
  }
  // The part of all steps that is over.
  double done() const;
  // To be called when everything is over; no rank is finished before `agreed`. Throws
  // Error(invalid_argument) if some steps never began.
  Prediction result(double agreed);

 private:
  size_t number(int rank, int32_t step) const { return first_[rank] + static_cast<size_t>(step); }
  // Where the beginning of the step is kept; -1: it has not begun. Null: it is not traced.
  double* traced(int rank, int32_t step) {
    if (trace_.empty() || trace_[rank] < 0) return nullptr;
    return &began_[static_cast<size_t>(trace_[rank]) + static_cast<size_t>(step)];
  }
  void record(int rank, int32_t step, double now);

  const std::vector<const Graph*> graphs_;
  std::vector<size_t> first_;     // by rank, and one more: the number of its first step
  std::vector<int32_t> pending_;  // by number
  std::vector<int64_t> trace_;    // by rank: its first step in began_; -1: it is not traced
  std::vector<double> began_;
  size_t most_intervals_ = 0;
  size_t over_ = 0;
  Prediction result_;
};

}  // namespace ringwood

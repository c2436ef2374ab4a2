// The progress of all ranks through their steps in a simulation (events.h), and the times of the
// steps of some of them. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/simulation/events.h"

namespace ringwood {

class StepsProgress final {
 public:
  // Both are memory of the caller.
  StepsProgress(const Traffic& traffic, const EventsRequest& request);

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
    const Graph& graph = traffic_.shape(rank).graph;
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k)
      if (--pending_[number(rank, graph.successor[k])] == 0) ready(graph.successor[k]);
  }
  // The rank is not finished before this time.
  void at_least(int rank, double now) {
    outcome_.finish[rank] = std::max(outcome_.finish[rank], now);
  }
  // The part of all steps that is over.
  double done() const;
  // To be called when everything is over; no rank is finished before `agreed`. Throws
  // Error(invalid_argument) if some steps never began.
  Outcome outcome(double agreed);

 private:
  size_t number(int rank, int32_t step) const {
    return traffic_.ranks[rank].first_item + static_cast<size_t>(step);
  }
  // Where the beginning of the step is kept; -1: it has not begun. Null: it is not traced.
  double* traced(int rank, int32_t step) {
    if (trace_.empty() || trace_[rank] < 0) return nullptr;
    return &began_[static_cast<size_t>(trace_[rank]) + static_cast<size_t>(step)];
  }
  void record(int rank, int32_t step, double now);

  const Traffic& traffic_;
  const size_t most_intervals_;
  std::vector<int32_t> pending_;  // by step, as Traffic::items
  std::vector<int64_t> trace_;    // by rank: its first step in began_; -1: it is not traced
  std::vector<double> began_;
  size_t over_ = 0;
  Outcome outcome_;
};

}  // namespace ringwood

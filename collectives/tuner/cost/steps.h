// The progress of each rank through its steps in a simulation (cost.h), with the times
// of the steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {

class CostSteps final {
 public:
  // `model` is memory of the caller. `timeline`: the prediction includes one.
  CostSteps(const CostModel& model, bool timeline);

  // The step waits for no other step.
  bool free(int rank, int32_t step) const { return pending_[rank][step] == 0; }
  // The first work is done for the step.
  void begin(int rank, int32_t step, double now) {
    if (timeline_ && began_[rank][step] < 0) began_[rank][step] = now;
  }
  // The step is over: calls ready(step) for each step that waited for nothing else.
  template <class Ready>
  void finish(int rank, int32_t step, double now, const Ready& ready) {
    record(rank, step, now);
    const Graph& graph = model_.ranks[rank].plan->graph;
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k)
      if (--pending_[rank][graph.successor[k]] == 0) ready(graph.successor[k]);
  }
  // The rank is not finished before this time.
  void at_least(int rank, double now) {
    result_.finish[rank] = std::max(result_.finish[rank], now);
  }
  // To be called when everything is over. Throws Error(invalid_argument) if some steps never began.
  Prediction result();

 private:
  void record(int rank, int32_t step, double now);

  const CostModel& model_;
  const bool timeline_;
  std::vector<std::vector<int32_t>> pending_;  // by rank and step
  std::vector<size_t> left_;                   // by rank: steps not finished
  std::vector<std::vector<double>> began_;     // by rank and step; -1: not yet
  Prediction result_;
};

}  // namespace ringwood

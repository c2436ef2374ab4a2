// How far each rank is with its steps in a simulation (cost.h), and when it did them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/cost/cost_model.h"

namespace ringwood {

class CostSteps final {
 public:
  // `model` is the caller's memory. `timeline`: the prediction has one.
  CostSteps(const CostModel& model, bool timeline);

  // It waits for no other step.
  bool free(int rank, int32_t step) const { return pending_[rank][step] == 0; }
  // Something is done for it for the first time.
  void begin(int rank, int32_t step, double now) {
    if (timeline_ && began_[rank][step] < 0) began_[rank][step] = now;
  }
  // It is over: ready(step) for each that waited for nothing else.
  template <class Ready>
  void finish(int rank, int32_t step, double now, const Ready& ready) {
    record(rank, step, now);
    const Graph& graph = model_.ranks[rank].plan->graph;
    for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k)
      if (--pending_[rank][graph.successor[k]] == 0) ready(graph.successor[k]);
  }
  // The rank is not done before.
  void at_least(int rank, double now) {
    result_.finish[rank] = std::max(result_.finish[rank], now);
  }
  // When all is over. Throws Error(invalid_argument) if there are steps that never began.
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

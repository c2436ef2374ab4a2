#include "collectives/tuner/cost/steps.h"

#include <algorithm>

#include <fmt/format.h>

namespace ringwood {

CostSteps::CostSteps(const CostModel& model, bool timeline) : model_(model), timeline_(timeline) {
  for (const CostRank& rank : model.ranks) {
    pending_.push_back(rank.plan->graph.predecessors);
    left_.push_back(rank.bytes.size());
    if (timeline) began_.emplace_back(rank.bytes.size(), -1.0);
  }
  result_.finish.assign(model.ranks.size(), 0);
}

void CostSteps::record(int rank, int32_t step, double now) {
  --left_[rank];
  at_least(rank, now);
  if (!timeline_) return;
  const double began = began_[rank][step];
  result_.timeline.push_back({rank, step, began < 0 ? now : began, now});
}

Prediction CostSteps::result() {
  for (size_t r = 0; r < left_.size(); ++r) {
    if (left_[r] > 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("cost: {} steps of rank {} never begin", left_[r], r));
    result_.finish[r] = std::max(result_.finish[r], model_.agreed);
    result_.seconds = std::max(result_.seconds, result_.finish[r]);
  }
  return std::move(result_);
}

}  // namespace ringwood

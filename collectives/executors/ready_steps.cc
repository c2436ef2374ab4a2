#include "collectives/executors/ready_steps.h"

namespace ringwood {

void ReadySteps::start(const Plan& plan) {
  plan_ = &plan;
  left_ = plan.steps.size();
  pending_.assign(plan.graph.predecessors.begin(), plan.graph.predecessors.end());
  ready_.clear();
  kept_.clear();
  keeps_ = is_early(plan);
  roundings_.clear();
  rounded_ = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (pending_[i] == 0) add(static_cast<int32_t>(i));
}

void ReadySteps::agreed() {
  keeps_ = false;
  for (const int32_t step : kept_) add(step);
  kept_.clear();
}

void ReadySteps::add(int32_t step) {
  const BoundStep& bound = plan_->steps[step];
  if (bound.peer >= 0 && bound.bytes != 0) return;
  if (keeps_ && !bound.early) return kept_.push_back(step);
  (bound.wire != WireFormat::exact && bound.bytes != 0 ? roundings_ : ready_).push_back(step);
}

void ReadySteps::complete(int32_t step) {
  const Graph& graph = plan_->graph;
  --left_;
  for (int32_t k = graph.offset[step]; k < graph.offset[step + 1]; ++k) {
    const int32_t next = graph.successor[k];
    if (--pending_[next] == 0) add(next);
  }
}

int32_t ReadySteps::take() {
  if (ready_.empty()) return -1;
  const int32_t step = ready_.back();
  ready_.pop_back();
  return step;
}

int32_t ReadySteps::take_rounding() {
  return rounded_ < roundings_.size() ? roundings_[rounded_++] : -1;
}

}  // namespace ringwood

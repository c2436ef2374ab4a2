#include "collectives/tuner/cost/step_progress.h"

#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {

StepProgress::StepProgress(std::vector<const Graph*> graphs) : graphs_(std::move(graphs)) {
  size_t steps = 0;
  for (const Graph* graph : graphs_) {
    first_.push_back(steps);
    steps += graph->predecessors.size();
  }
  first_.push_back(steps);
  pending_.reserve(steps);
  for (const Graph* graph : graphs_)
    pending_.insert(pending_.end(), graph->predecessors.begin(), graph->predecessors.end());
  result_.finish.assign(graphs_.size(), 0);
}

void StepProgress::trace(const std::vector<int>& ranks, size_t most_intervals) {
  most_intervals_ = most_intervals;
  trace_.assign(graphs_.size(), -1);
  for (const int rank : ranks) {
    trace_[rank] = static_cast<int64_t>(began_.size());
    began_.resize(began_.size() + static_cast<size_t>(steps(rank)), -1);
  }
}

void StepProgress::record(int rank, int32_t step, double now) {
  ++over_;
  at_least(rank, now);
  const double* const began = traced(rank, step);
  if (began && result_.timeline.size() < most_intervals_)
    result_.timeline.push_back({rank, step, *began < 0 ? now : *began, now});
}

double StepProgress::done() const {
  return static_cast<double>(over_) / static_cast<double>(std::max<size_t>(1, pending_.size()));
}

Prediction StepProgress::result(double agreed) {
  if (over_ < pending_.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("simulation: {} steps wait for each other and never begin",
                            pending_.size() - over_));
  for (double& finish : result_.finish) {
    finish = std::max(finish, agreed);
    result_.seconds = std::max(result_.seconds, finish);
  }
  return std::move(result_);
}

}  // namespace ringwood

#include "tools/simulation/progress_of_steps.h"

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {

StepsProgress::StepsProgress(const Traffic& traffic, const EventsRequest& request)
    : traffic_(traffic), most_intervals_(request.most_intervals) {
  pending_.reserve(traffic.items.size());
  for (const TrafficRank& rank : traffic.ranks) {
    const std::vector<int32_t>& waits = traffic.shapes[rank.shape].graph.predecessors;
    pending_.insert(pending_.end(), waits.begin(), waits.end());
  }
  outcome_.finish.assign(traffic.ranks.size(), 0);
  if (request.traced.empty()) return;
  trace_.assign(traffic.ranks.size(), -1);
  for (const int rank : request.traced) {
    trace_[rank] = static_cast<int64_t>(began_.size());
    began_.resize(began_.size() + traffic.shape(rank).kinds.size(), -1);
  }
}

void StepsProgress::record(int rank, int32_t step, double now) {
  ++over_;
  at_least(rank, now);
  const double* const began = traced(rank, step);
  if (began && outcome_.timeline.size() < most_intervals_)
    outcome_.timeline.push_back({rank, step, *began < 0 ? now : *began, now});
}

double StepsProgress::done() const {
  return static_cast<double>(over_) / static_cast<double>(std::max<size_t>(1, pending_.size()));
}

Outcome StepsProgress::outcome(double agreed) {
  if (over_ < pending_.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("simulate: {} steps wait for each other and never begin",
                            pending_.size() - over_));
  for (double& finish : outcome_.finish) {
    finish = std::max(finish, agreed);
    outcome_.seconds = std::max(outcome_.seconds, finish);
  }
  return std::move(outcome_);
}

}  // namespace ringwood

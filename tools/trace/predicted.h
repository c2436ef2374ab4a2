// What an operation of a trace was predicted to take, step by step: the cost model's time line of
// its row (collectives/tuner/cost/cost.h), with the parameters by which the job chose, but without
// what was known there of slow hosts, so that a slow one is seen.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "tools/trace/dumps.h"

namespace ringwood::tools {

// A message, as it was measured or predicted. Seconds.
struct TracedMessage {
  int from = 0, to = 0;
  int nth = 0;  // of those from one to the other
  int send_step = -1, recv_step = -1;
  double bytes = 0;
  double begin = 0;  // both ends had begun, and the one before it on this link was there
  double end = 0;
  double sent = 0;  // as `begin`, but its receiver need not have begun
};

struct PredictedSteps {
  double seconds = 0;
  std::vector<Interval> steps;  // from the call on, in the order of their ends
  std::map<std::tuple<int, int, int>, TracedMessage> messages;  // by from, to, nth
  CostModel model;
};

class Predictions final {
 public:
  // The group is memory of the caller.
  explicit Predictions(const TracedGroup& group);

  // Null: the operation's row is not in the table, its blocks differ, or its ranks have too many
  // steps.
  std::shared_ptr<const PredictedSteps> of(const TracedOperation& operation);

 private:
  using Key = std::tuple<int, std::string, int, int, int, int, uint64_t>;
  std::shared_ptr<const PredictedSteps> predict(const TracedOperation& operation) const;

  const TracedGroup& group_;
  MachineModel machine_;
  std::map<Key, std::shared_ptr<const PredictedSteps>> known_;
};

}  // namespace ringwood::tools

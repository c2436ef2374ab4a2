// How the ranks of a queued plan find that they called the same (fingerprint.h), by messages or by
// eager slots. Each is used as a part of QueuedExecutor, by its thread.
#pragma once

#include <span>

#include "collectives/executors/peer_link.h"
#include "collectives/executors/plan_execution.h"
#include "collectives/executors/wait_list.h"

namespace ringwood {

class Agreement {
 public:
  Agreement() = default;
  virtual ~Agreement() = default;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // `links`, of Plan::peers, and the execution live until it is finished, or has failed.
  virtual void start(const PlanExecution& execution, std::span<QueuedLink> links) = 0;
  // Goes on with it. `agreed` is set when all ranks are known to have called the same. Error
  // mismatch, with both calls in words.
  virtual Status step(bool& progressed, bool& agreed) = 0;
  // Looks only at what has come: whether a fingerprint differs.
  virtual Status check() = 0;
  // When all of the plan is done.
  virtual void finish() = 0;
  virtual void add_waits(WaitList& waits) const = 0;
};

}  // namespace ringwood

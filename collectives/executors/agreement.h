// How the ranks of a queued plan find out that they made the same call (fingerprint.h): by messages
// or by eager slots. Each is a part of QueuedExecutor and is used by its thread.
#pragma once

#include <cstdint>
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

  // `links`, of Plan::peers, and the execution live until the agreement is finished or has failed.
  virtual void start(const PlanExecution& execution, std::span<QueuedLink> links) = 0;
  // Makes one iteration. Sets `agreed` once all ranks are known to have made the same call. Returns
  // Error mismatch, with both calls in words, where they differ.
  virtual Status step(bool& progressed, bool& agreed) = 0;
  // All fingerprints of that link's peer that the plan expects, at least one, have come.
  virtual bool heard(size_t link) const = 0;
  // Once agreed: the order of elements that all ranks have stated; 0: that of the indices.
  uint32_t order() const { return order_; }
  // Looks only at the fingerprints that have arrived: returns an error if one differs.
  virtual Status check() = 0;
  // To be called when the whole plan is done.
  virtual void finish() = 0;
  virtual void add_waits(WaitList& waits) const = 0;
  // The first of them; -1: none.
  virtual int waits_for() const = 0;

 protected:
  void begin_order(const PlanExecution& execution) {
    order_ = states_order(execution) ? execution.fingerprint.blocks : 0;
  }
  void hear_order(const Fingerprint& theirs) {
    if (theirs.blocks != order_) order_ = 0;
  }

 private:
  uint32_t order_ = 0;  // stated by all ranks that this one has heard of
};

}  // namespace ringwood

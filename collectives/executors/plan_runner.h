// Carries out plans over one channel of a mesh, each with the executor of its protocol
// (executor.h).
//
// One execution at a time; not thread-safe. The caller owns the loop around step(), its deadline,
// its sleeping and the abort. The mesh outlives the runner. The totals that its links keep for the
// channel belong to the runner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/executors/eager_slots.h"
#include "collectives/executors/executor.h"
#include "collectives/executors/one_round_executor.h"
#include "collectives/executors/queued_executor.h"
#include "collectives/executors/scratch.h"
#include "collectives/executors/slot_executor.h"

namespace ringwood {

class PlanRunner final {
 public:
  explicit PlanRunner(Mesh& mesh, int channel = kCollectiveChannel);
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  // What start() will carry out, to be filled in place, except what the runner owns: copying what
  // was just written would stall until it is in the cache. Precondition: idle.
  PlanExecution& next() { return execution_; }
  // Preconditions: idle; all ranks' plans have the same protocol. Throws Error(internal) for a plan
  // with slots where slots_to_all() is false, Error(system) where memory is short.
  void start();
  void start(const PlanExecution& execution) {
    execution_ = execution;
    start();
  }
  bool idle() const { return idle_; }
  // All ranks are known to have made the same call; remains true until the next start().
  bool agreed() const { return executor_->agreed(); }
  // Once agreed(): the order of elements that all ranks have stated (fingerprint.h), or 0.
  uint32_t order() const { return executor_->order(); }
  // With delay_sends: the caller has finished its part and the run may begin.
  void release() { executor_->release(); }
  // Makes one iteration. Sets `progressed` when anything moved. After it, idle() tells whether the
  // plan is finished. Precondition: not idle.
  Status step(bool& progressed) {
    Iteration iteration;
    Status s = executor_->step(iteration);
    progressed = progressed || iteration.progressed;
    idle_ = iteration.finished;
    return s;
  }
  // Drops a plan that failed. Its links must have been aborted. With memory of a device: no copy
  // is begun any more, and the user's stream goes on; copies that were begun still use the scratch.
  void drop();

  // Whether peers read this rank's scratch in place.
  bool reads_in_place() const { return scratch_.in_arena(); }
  // Reductions that were carried out in one pass over memory (fusion.h).
  uint64_t fused() const { return queued_.fused(); }
  // What is before the operation in the user's stream of a device is not done.
  bool waits_for_stream() const {
    return execution_.device && !idle_ && queued_.waits_for_stream();
  }
  // For errors; empty when idle.
  WaitList waits() const;
  // The first peer of them, cheaply; -1: none.
  int waits_for() const { return idle_ ? -1 : executor_->waits_for(); }

 private:
  Executor& executor_of(Protocol protocol);
  void take_scratch() {
    if (execution_.device) [[unlikely]] {  // its scratch was given
      scratch_.grow(0, execution_.plan->wide.bytes);
    } else {
      scratch_.grow(execution_.plan->memory.scratch_bytes, execution_.plan->wide.bytes);
      execution_.scratch = scratch_.data();
    }
    execution_.wide = scratch_.wide();
  }

  EagerSlots slots_;
  Scratch scratch_;
  QueuedExecutor queued_;
  OneRoundExecutor one_round_;
  SlotExecutor eager_;
  PlanExecution execution_;
  Executor* executor_ = &queued_;  // of the last plan
  bool idle_ = true;
};

}  // namespace ringwood

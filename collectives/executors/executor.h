// An executor carries out plans of one protocol (Plan::protocol). It decides nothing: how a message
// travels, what is added in one pass over memory and what is sent along with a preamble are fields
// of the plan. It never waits: the caller of step() owns the loop, its deadline, its sleeping and
// the abort.
//
//   agree     fingerprints are exchanged (fingerprint.h); sends may leave, and in early plans data
//            moves in scratch (plan/agreement.h), but no user buffer is written
//  run       messages are posted and received, local steps are run
//  finished  every step and every fingerprint is done: the buffers belong to the caller again
//
//  protocol     class             state
//  queued       QueuedExecutor    the messages of every link in order, and what each step waits for
//  one_round    OneRoundExecutor  every link's preamble; the steps run in their order
//  eager_slots  SlotExecutor      the next step
//
// So that other operations, which may have a higher priority, get their turn, an iteration ends
// after about kIterationBytes of local steps, fusions and messages that are read in place, or when
// the poll() of one link has stopped early (Link, rule 5). So it moves at most about 3 MiB, and
// over verbs what the rings of its links contain besides.
//
// All are started by PlanRunner. One execution at a time; not thread-safe. Nothing is allocated
// once the vectors have grown to the largest plan in use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/executors/plan_execution.h"
#include "collectives/executors/wait_list.h"
#include "transports/base/error.h"

namespace ringwood {

inline constexpr size_t kIterationBytes = size_t{1} << 20;

// What one step() has done.
struct Iteration {
  bool progressed = false;  // something has moved; step() never sets it to false
  bool finished = false;
};

class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Precondition: the last plan is finished, or it failed and its links were aborted. `execution`
  // lives until then, too.
  virtual void start(const PlanExecution& execution) = 0;
  // Makes one iteration. An error is final.
  virtual Status step(Iteration& iteration) = 0;
  // All ranks are known to have made the same call. Remains true when finished.
  virtual bool agreed() const = 0;
  // Once agreed(): the order of elements that all ranks have stated (fingerprint.h), or 0.
  virtual uint32_t order() const { return 0; }
  // With delay_sends: the caller has finished its part and the run may begin.
  virtual void release() = 0;
  // It will not be stepped any more, although it is not finished.
  virtual void drop() noexcept {}
  // Precondition: started and not finished.
  virtual void add_waits(WaitList& waits) const = 0;
  // The first of them, cheaply; -1: none. Same precondition.
  virtual int waits_for() const = 0;
};

}  // namespace ringwood

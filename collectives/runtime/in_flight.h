// What is being carried out: one collective, and the messages.
//
// Each method makes what progress there is and returns; what it throws, or returns, is an error of
// the data path, and whose it is says collective(). Thread safety: the driver only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/executors/plan_runner.h"
#include "collectives/point_to_point.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/running_status.h"
#include "collectives/runtime/work_queue.h"
#include "transports/adopt.h"
#include "transports/mesh.h"

namespace ringwood {

class InFlight final {
 public:
  InFlight(Mesh& mesh, const Options& options, Role& role, WorkQueue& queue, RunningStatus& status);

  // A collective that went past the queue, whose handle nobody else has.
  void begin_unshared(CollectiveState& operation) {
    unshared_ = &operation;
    // The caller holds it: counting one more holder would cost two locked instructions.
    current_ = std::shared_ptr<CollectiveState>(std::shared_ptr<void>(), &operation);
  }
  void end_unshared() { unshared_ = nullptr; }
  // Messages that are in the queue.
  void take_messages();
  // One pass each. What is finished is appended, but for the unshared one, which is settled.
  Status step_collective(bool& progressed, Operations& finished);
  // `armed`: the driver is about to sleep, and listens to all.
  Status step_messages(bool armed, bool& progressed, Operations& finished) {
    if (!armed && !messages_.active()) return {};
    return messages_.step(armed, progressed, finished);
  }
  // The group has ended: links are aborted first, so no buffer is touched any more. All that is in
  // flight and in the queue is appended.
  void drop(Operations& dropped);

  const std::shared_ptr<CollectiveState>& collective() const { return current_; }  // or null
  WaitList waits() const { return runner_.waits(); }  // of the collective
  // The one that runs, or one behind it in the queue with less patience.
  std::shared_ptr<CollectiveState> late_collective(Clock::time_point now) const;
  const PointToPoint& messages() const { return messages_; }
  bool reads_in_place() const { return runner_.reads_in_place(); }

 private:
  void start();
  void adopt(const CollectiveState& operation);
  void withdraw(const CollectiveState& operation);

  Mesh& mesh_;
  Role& role_;
  WorkQueue& queue_;
  RunningStatus& status_;
  PlanRunner runner_;
  PointToPoint messages_;
  Adopted* adopted_ = nullptr;  // null: no buffer is to become shared
  const size_t adopt_bytes_;    // from which on they do
  std::shared_ptr<CollectiveState> current_;
  const CollectiveState* unshared_ = nullptr;
  bool links_aborted_ = false;
};

}  // namespace ringwood

// What is being carried out: the collectives, and the messages, which have no order with them.
//
// Each method makes what progress there is and returns. Thread safety: the driver only.
#pragma once

#include <memory>
#include <vector>

#include "collectives/messages/point_to_point.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/running_status.h"
#include "collectives/runtime/tracks.h"
#include "collectives/runtime/work_queue.h"
#include "transports/mesh.h"

namespace ringwood {

class InFlight final {
 public:
  InFlight(Mesh& mesh, const Options& options, Role& role, WorkQueue& queue, RunningStatus& status);

  // All that is in the queue.
  void take();
  Tracks& collectives() { return collectives_; }
  const Tracks& collectives() const { return collectives_; }
  // One pass. What is finished is appended. `armed`: the driver is about to sleep, and listens to
  // all.
  Status step_messages(bool armed, bool& progressed, Operations& finished) {
    if (!armed && !messages_.active()) return {};
    return messages_.step(armed, progressed, finished);
  }
  // The group has ended: links are aborted first, so no buffer is touched any more. All that is in
  // flight is appended.
  void drop(Operations& dropped);
  const PointToPoint& messages() const { return messages_; }

 private:
  Mesh& mesh_;
  Role& role_;
  WorkQueue& queue_;
  Tracks collectives_;
  PointToPoint messages_;
  std::vector<Track::Collective> taken_;  // empty between two calls; keeps its memory
  bool links_aborted_ = false;
};

}  // namespace ringwood

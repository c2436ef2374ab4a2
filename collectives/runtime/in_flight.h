// The operations in flight: collectives, and messages, which have no order relative to them.
//
// Each method makes what progress is possible and returns. Thread safety: the driver only.
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
  InFlight(Mesh& mesh, const Options& options, Role& role, WorkQueue& queue, RunningStatus& status,
           Recorder& recorder);

  // Takes everything from the queue.
  void take();
  Tracks& collectives() { return collectives_; }
  const Tracks& collectives() const { return collectives_; }
  // Makes one pass and appends what is finished. `armed`: the driver is about to sleep, so every
  // source must be watched.
  Status step_messages(bool armed, bool& progressed, Operations& finished) {
    if (!armed && !messages_.active()) return {};
    return messages_.step(armed, progressed, finished);
  }
  // The group has ended. Aborts the links first, so that no buffer is touched any more, then
  // appends everything in flight.
  void drop(Operations& dropped);
  // As Transport::look_for_ends().
  void look_for_ends() noexcept { mesh_.look_for_ends(); }
  const PointToPoint& messages() const { return messages_; }
  int ranks() const { return mesh_.size; }

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

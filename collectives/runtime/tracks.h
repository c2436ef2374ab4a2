// The collectives of a group, carried out side by side, each on its track (work_queue.h).
//
//   track 0     #0 in flight   #2, #4 wait          served in every pass: high priority first, then
//   track 1     #1 in flight   #5 waits             by age; a later one gets its turn only where
//   high        #3 in flight                        those before it made no progress
//
// Order. The operations of a track begin in the order of their calls. An operation that reads or
// writes what an earlier one of another track writes, or that writes what the earlier one reads,
// begins after the earlier one has ended. On other ranks the buffers may differ, so that both begin
// at once there. That is no deadlock: on every rank an operation waits only for earlier ones. The
// earliest operation that is not finished on all ranks is the first of its track on every rank,
// waits for nothing, and is alone on its channel.
//
// An exception or error of a method is an error of the data path; stepped() tells the operation.
// Thread safety: the driver only.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "collectives/runtime/remapping.h"
#include "collectives/runtime/running_status.h"
#include "collectives/runtime/track.h"
#include "collectives/runtime/work_queue.h"
#include "transports/mesh.h"

namespace ringwood {

class Tracks final {
 public:
  Tracks(Mesh& mesh, const Options& options, RunningStatus& status, Recorder& recorder);

  // Begins a collective that bypassed the queue and whose handle has no other holder. Precondition:
  // nothing else is in flight or waits.
  void begin_unshared(CollectiveState& operation) {
    unshared_ = &operation;
    Track& track = track_of(operation);
    // The caller holds it: one more reference count would cost two locked instructions.
    track.current = Track::Collective(std::shared_ptr<void>(), &operation);
    serve(track);
  }
  void end_unshared() { unshared_ = nullptr; }
  bool unshared(const OperationState& operation) const { return unshared_ == &operation; }
  bool unshared_done() const { return unshared_ && unshared_->done(); }
  // In the order of their calls; the operations are moved from.
  void add(std::span<Track::Collective> operations);
  // Makes one pass and appends what is finished, except an unshared operation, which is completed
  // here. Precondition: `progressed` is false.
  Status step(bool& progressed, Operations& finished) {
    if (may_begin_) begin_ready();
    for (size_t i = 0; i < serving_; ++i) {
      stepped_ = served_[i];
      if (Status s = step(*stepped_, progressed, finished); !s || progressed) return s;
    }
    return {};
  }
  // Nothing has moved for a moment.
  void note_waiting(Clock::time_point now);
  // Gives up all of them. The links must have been aborted.
  void drop(Operations& dropped);

  // The operation whose step failed, or null.
  const CollectiveState* stepped() const { return stepped_ ? stepped_->current.get() : nullptr; }
  // The tracks with an operation in flight, in the order in which they are served.
  std::span<const Track* const> served() const { return {served_.data(), serving_}; }
  bool under_way(const CollectiveState& operation) const {
    return track_of(operation).current.get() == &operation;
  }
  // What an operation waits for; if it has not begun, what the operation that blocks it waits for.
  WaitList waits(const CollectiveState& operation) const;
  // An operation past its deadline, or null.
  std::shared_ptr<CollectiveState> late(Clock::time_point now) const;
  bool reads_in_place() const { return tracks_[0]->runner.reads_in_place(); }

 private:
  Track& track_of(const CollectiveState& operation) const {
    return *tracks_[static_cast<size_t>(operation.track)];
  }
  void serve(Track& track) {
    if (serving_ > 0) return serve_in_order(track);
    served_[0] = &track;
    serving_ = 1;
  }
  void serve_in_order(Track& track);
  Status step(Track& track, bool& progressed, Operations& finished);
  void start(Track& track);
  void end(Track& track);
  void begin_ready();
  const CollectiveState* in_the_way_of(CollectiveState& operation) const;

  Remapping remapping_;
  std::vector<std::unique_ptr<Track>> tracks_;
  std::array<Track*, kMaxInFlight> served_{};
  size_t serving_ = 0;
  Track* stepped_ = nullptr;
  size_t waiting_ = 0;      // operations of all tracks that have not begun
  bool may_begin_ = false;  // one of them may begin
  const CollectiveState* unshared_ = nullptr;
};

}  // namespace ringwood

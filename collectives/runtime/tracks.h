// The collectives of a group, carried out side by side, each on its track (work_queue.h).
//
//   track 0     #0 in flight   #2, #4 wait          served in every iteration: high priority first,
//   track 1     #1 in flight   #5 waits             then by age; a later one gets its turn only
//   high        #3 in flight                        where those before it made no progress
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
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/executors/plan_runner.h"
#include "collectives/operations/operation.h"
#include "collectives/recorder/track_recorder.h"
#include "collectives/runtime/device_calls.h"
#include "collectives/runtime/remapping.h"
#include "collectives/runtime/running_status.h"
#include "collectives/runtime/work_queue.h"
#include "transports/cache_line.h"
#include "transports/mesh.h"

namespace ringwood {

// Collectives that are carried out one after the other over one channel of the mesh: the one in
// flight, and those that wait for it in the order of their calls.
class alignas(kCacheLine) Track final {
 public:
  using Collective = std::shared_ptr<CollectiveState>;

  Track(Mesh& mesh, int number, RunningStatus& status, Recorder& recorder)
      : runner(mesh, collective_channel(number)),
        status(status.track(number)),
        record(recorder, number) {}

  void push(Collective operation) { waiting_.push_back(std::move(operation)); }
  std::span<const Collective> waiting() const { return std::span(waiting_).subspan(first_); }
  // Begins the first of them. Precondition: there is one, and nothing is in flight.
  void begin_next();
  // Gives up all its operations.
  template <class List>
  void drop(List& dropped) {
    if (record.on()) record.end(RecordedEnd::failed);
    if (current) dropped.push_back(std::move(current));
    current = nullptr;
    for (; first_ < waiting_.size(); ++first_) dropped.push_back(std::move(waiting_[first_]));
    waiting_.clear();
    first_ = 0;
    in_the_way = nullptr;
    runner.drop();
  }

  PlanRunner runner;
  RunningStatus::Row& status;
  TrackRecorder record;
  Collective current;  // or null
  // The earlier operation of another track that the first waiting one must follow because it reads
  // or writes the same memory. Null: none is known.
  const CollectiveState* in_the_way = nullptr;

 private:
  // Valid from `first_` on; keeps its memory, so that a submission allocates nothing.
  std::vector<Collective> waiting_;
  size_t first_ = 0;
};

inline void Track::begin_next() {
  current = std::move(waiting_[first_]);
  if (++first_ * 2 < waiting_.size()) return;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

class Tracks final {
 public:
  Tracks(Mesh& mesh, const Options& options, RunningStatus& status, Recorder& recorder,
         DeviceCalls& devices);

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
  // Makes one iteration and appends what is finished, except an unshared operation, which is
  // completed here. Precondition: `progressed` is false.
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
  // An operation past its deadline, or null. Time in which a user's stream has not come to it, or
  // to the one that it waits for, does not count.
  std::shared_ptr<CollectiveState> late(Clock::time_point now) const;
  bool reads_in_place() const { return tracks_[0]->runner.reads_in_place(); }

 private:
  Track& track_of(const CollectiveState& operation) const {
    return *tracks_[static_cast<size_t>(operation.run.track)];
  }
  void serve(Track& track) {
    if (serving_ > 0) return serve_in_order(track);
    served_[0] = &track;
    serving_ = 1;
  }
  void serve_in_order(Track& track);
  Status step(Track& track, bool& progressed, Operations& finished);
  void start(Track& track);
  void use_device(const CollectiveState& op, PlanExecution& execution);
  void end(Track& track);
  void begin_ready();
  // The operation under way that it waits for; itself if it is; null: none is.
  const CollectiveState* waited_for(const CollectiveState& operation) const;
  bool is_late(CollectiveState& operation, Clock::time_point now) const;
  const CollectiveState* in_the_way_of(CollectiveState& operation) const;

  Remapping remapping_;
  DeviceCalls& devices_;
  std::vector<std::unique_ptr<Track>> tracks_;
  std::array<Track*, kMaxInFlight> served_{};
  size_t serving_ = 0;
  Track* stepped_ = nullptr;
  size_t waiting_ = 0;      // operations of all tracks that have not begun
  bool may_begin_ = false;  // one of them may begin
  const CollectiveState* unshared_ = nullptr;
};

}  // namespace ringwood

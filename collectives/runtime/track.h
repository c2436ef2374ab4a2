// A track: collectives that are carried out one after the other over one channel of the mesh. Holds
// the one in flight, and those that wait for it in the order of their calls.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/executors/plan_runner.h"
#include "collectives/operations/operation.h"
#include "collectives/recorder/track_recorder.h"
#include "collectives/runtime/running_status.h"
#include "transports/mesh.h"

namespace ringwood {

class Track final {
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
    begun = false;
    runner.drop();
  }

  PlanRunner runner;
  RunningStatus::Row& status;
  TrackRecorder record;
  Collective current;  // or null
  bool begun = false;  // its plan is being carried out, or has been, while local work is left
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

}  // namespace ringwood

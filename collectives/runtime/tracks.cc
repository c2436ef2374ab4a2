#include "collectives/runtime/tracks.h"

#include <algorithm>
#include <utility>

#include "collectives/recorder/recorder.h"

namespace ringwood {

Tracks::Tracks(Mesh& mesh, const Options& options, RunningStatus& status, Recorder& recorder)
    : remapping_(mesh, options) {
  for (int number = 0; number < mesh.in_flight; ++number)
    tracks_.push_back(std::make_unique<Track>(mesh, number, status, recorder));
}

void Tracks::add(std::span<Track::Collective> operations) {
  waiting_ += operations.size();
  may_begin_ = waiting_ > 0;
  for (Track::Collective& operation : operations) {
    Track& track = track_of(*operation);
    track.push(std::move(operation));
  }
}

// High priority first, then by age.
void Tracks::serve_in_order(Track& track) {
  const CollectiveState& fresh = *track.current;
  size_t at = serving_++;
  for (; at > 0; --at) {
    const CollectiveState& before = *served_[at - 1]->current;
    if (before.priority > fresh.priority ||
        (before.priority == fresh.priority && before.number < fresh.number))
      break;
    served_[at] = served_[at - 1];
  }
  served_[at] = &track;
}

void Tracks::begin_ready() {
  may_begin_ = false;
  stepped_ = nullptr;
  for (const auto& track : tracks_) {
    if (track->current || track->in_the_way || track->waiting().empty()) continue;
    track->in_the_way = in_the_way_of(*track->waiting().front());
    if (track->in_the_way) continue;
    track->begin_next();
    --waiting_;
    serve(*track);
  }
}

// Considers waiting operations, too: they were called earlier.
const CollectiveState* Tracks::in_the_way_of(CollectiveState& operation) const {
  const auto conflicts = [&](CollectiveState& other) {
    return other.number < operation.number &&
           footprint_of(other).conflicts(footprint_of(operation));
  };
  for (const auto& track : tracks_) {
    if (track.get() == &track_of(operation)) continue;
    if (track->current && conflicts(*track->current)) return track->current.get();
    for (const Track::Collective& other : track->waiting()) {
      if (other->number > operation.number) break;
      if (conflicts(*other)) return other.get();
    }
  }
  return nullptr;
}

Status Tracks::step(Track& track, bool& progressed, Operations& finished) {
  CollectiveState& op = *track.current;
  PlanRunner& runner = track.runner;
  if (!track.begun) {
    if (!op.at_start.done()) [[unlikely]] {
      op.at_start.step();
      progressed = true;
      return {};
    }
    start(track);
    track.begun = true;
  }
  if (!runner.idle()) {
    if (Status s = runner.step(progressed); !s) return s;
    if (track.record.on()) [[unlikely]]
      track.record.note_agreed(runner.agreed());
  }
  if (!op.prepare.done() && runner.agreed()) {
    op.agreed_order = runner.order();
    op.prepare.step();
    progressed = true;
    if (op.prepare.done()) runner.release();
  }
  if (!runner.idle()) return {};
  progressed = true;
  if (!op.prepare.done()) [[unlikely]]
    return {};
  if (!op.finish.done()) [[unlikely]] {
    op.finish.step();
    if (!op.finish.done()) return {};
  }
  track.begun = false;
  track.status.end();
  if (track.record.on()) [[unlikely]]
    track.record.end(RecordedEnd::done);
  if (serving_ == 1 && waiting_ == 0) [[likely]]
    serving_ = 0;
  else
    end(track);
  if (&op == unshared_) {
    op.complete_alone();
  } else {
    finished.push_back(std::move(track.current));
  }
  track.current = nullptr;
  return {};
}

// The general case: other tracks are served too, or operations wait.
void Tracks::end(Track& track) {
  const auto served = std::span(served_).first(serving_--);
  std::shift_left(std::ranges::find(served, &track), served.end(), 1);
  may_begin_ = waiting_ > 0;
  for (const auto& other : tracks_)
    if (other->in_the_way == track.current.get()) other->in_the_way = nullptr;
}

void Tracks::start(Track& track) {
  const CollectiveState& op = *track.current;
  remapping_.begin(op);
  PlanExecution& execution = track.runner.next();
  execution.plan = op.plan.get();
  execution.fingerprint = op.fingerprint;
  execution.buffers = op.buffers;
  execution.send_counts = op.send_counts;
  execution.recv_counts = op.recv_counts;
  execution.hold_sends = !op.prepare.empty() && op.holds;
  execution.factors = op.factors.get();
  execution.times = nullptr;
  if (op.entered_ns != 0) [[unlikely]]
    execution.times = track.record.begin(*op.plan, op.fingerprint, op.entered_ns,
                                         &op == unshared_ ? op.entered_ns : 0);
  track.runner.start();
  track.status.begin(op.fingerprint);  // while the first messages are on their way
}

void Tracks::note_waiting(Clock::time_point now) {
  for (size_t i = 0; i < serving_; ++i) {
    Track& track = *served_[i];
    const CollectiveState& op = *track.current;
    track.record.note_waiting(clock_ns(now), *op.plan, op.fingerprint, track.runner.waits_for());
  }
}

void Tracks::drop(Operations& dropped) {
  for (const Track* track : served()) remapping_.withdraw(*track->current);
  serving_ = waiting_ = 0;
  for (const auto& track : tracks_) track->drop(dropped);
}

WaitList Tracks::waits(const CollectiveState& operation) const {
  const CollectiveState* op = &operation;
  while (op && !under_way(*op)) {
    const Track& track = track_of(*op);
    // The first waiting operation is held back by what is in its way, the others by the first.
    const bool first = !track.current && track.waiting().front().get() == op;
    op = track.current ? track.current.get() : first ? track.in_the_way : track.waiting()[0].get();
  }
  return op ? track_of(*op).runner.waits() : WaitList();
}

std::shared_ptr<CollectiveState> Tracks::late(Clock::time_point now) const {
  for (const auto& track : tracks_) {
    if (track->current && track->current->late(now)) return track->current;
    for (const Track::Collective& operation : track->waiting())
      if (operation->late(now)) return operation;
  }
  return nullptr;
}

}  // namespace ringwood

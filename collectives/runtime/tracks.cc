#include "collectives/runtime/tracks.h"

#include <algorithm>
#include <utility>

#include "collectives/recorder/recorder.h"

namespace ringwood {

Tracks::Tracks(Mesh& mesh, const Options& options, RunningStatus& status, Recorder& recorder,
               DeviceCalls& devices)
    : remapping_(mesh, options), devices_(devices) {
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
  const auto priority = [](const CollectiveState& op) { return op.call().priority; };
  const CollectiveState& fresh = *track.current;
  size_t at = serving_++;
  for (; at > 0; --at) {
    const CollectiveState& before = *served_[at - 1]->current;
    if (priority(before) > priority(fresh) ||
        (priority(before) == priority(fresh) && before.number < fresh.number))
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
  using Stage = CollectiveRun::Stage;
  CollectiveState& op = *track.current;
  const CollectiveCall& call = op.call();
  CollectiveRun& run = op.run;
  PlanRunner& runner = track.runner;
  if (run.stage == Stage::at_start) {
    if (!call.at_start.done(run.work)) [[unlikely]] {
      call.at_start.step(run.work, op.buffers());
      progressed = true;
      return {};
    }
    start(track);
    if (call.prepare.empty()) [[likely]]
      run.stage = Stage::plan;
    else
      run.enter(Stage::prepare);
  }
  if (!runner.idle()) {
    if (Status s = runner.step(progressed); !s) return s;
    if (track.record.on()) [[unlikely]]
      track.record.note_agreed(runner.agreed());
  }
  if (run.stage == Stage::prepare && runner.agreed()) {
    run.agreed_order = runner.order();
    call.prepare.step(run.work, op.buffers());
    progressed = true;
    if (call.prepare.done(run.work)) {
      runner.release();
      run.stage = Stage::plan;
    }
  }
  if (!runner.idle()) return {};
  progressed = true;
  if (run.stage == Stage::prepare) [[unlikely]]
    return {};
  if (!call.finish.empty()) [[unlikely]] {
    if (run.stage == Stage::plan) run.enter(Stage::finish);
    call.finish.step(run.work, op.buffers());
    if (!call.finish.done(run.work)) return {};
  }
  run.enter(Stage::at_start);  // of the next run, if it is persistent
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
  CollectiveState& op = *track.current;
  const CollectiveCall& call = op.call();
  PlanExecution& execution = track.runner.next();
  execution.plan = call.plan.get();
  call.state(execution.fingerprint, static_cast<uint64_t>(op.number));
  execution.buffers = op.buffers();
  execution.send_counts = call.send_counts;
  execution.recv_counts = call.recv_counts;
  execution.delay_sends = call.delays_data();
  execution.factors = call.factors.get();
  execution.times = nullptr;
  execution.device = nullptr;
  if (op.run.entered) [[unlikely]]
    use_device(op, execution);
  else
    remapping_.begin(op);
  if (const int64_t entered = op.run.entered_ns; entered != 0) [[unlikely]]
    execution.times = track.record.begin(*call.plan, execution.fingerprint, entered,
                                         &op == unshared_ ? entered : 0);
  track.runner.start();
  if (execution.device) [[unlikely]]
    op.run.entered.reset();                   // the runner's from here on
  track.status.begin(execution.fingerprint);  // while the first messages are on their way
}

void Tracks::use_device(const CollectiveState& op, PlanExecution& execution) {
  execution.device = &devices_.devices().copies(op.call().on.device);
  execution.entered = *op.run.entered;
  execution.scratch = devices_.devices().scratch(op.run.track);
  execution.own_move = op.call().own_move;
  execution.factor = op.call().factor;
}

void Tracks::note_waiting(Clock::time_point now) {
  for (size_t i = 0; i < serving_; ++i) {
    Track& track = *served_[i];
    const CollectiveState& op = *track.current;
    Fingerprint fingerprint;
    op.call().state(fingerprint, static_cast<uint64_t>(op.number));
    track.record.note_waiting(clock_ns(now), *op.call().plan, fingerprint,
                              track.runner.waits_for());
    if (op.call().on.device >= 0) track.status.wait_for_gpu(track.runner.waits_for_stream());
  }
}

void Tracks::drop(Operations& dropped) {
  for (const Track* track : served())
    if (track->current->call().on.device < 0) remapping_.withdraw(*track->current);
  serving_ = waiting_ = 0;
  for (const auto& track : tracks_) {
    if (track->current) devices_.leave(*track->current);
    for (const Track::Collective& waiting : track->waiting()) devices_.leave(*waiting);
    track->drop(dropped);
  }
}

const CollectiveState* Tracks::waited_for(const CollectiveState& operation) const {
  const CollectiveState* op = &operation;
  while (op && !under_way(*op)) {
    const Track& track = track_of(*op);
    // The first waiting operation is delayed by what is in its way, the others by the first.
    const bool first = !track.current && track.waiting().front().get() == op;
    op = track.current ? track.current.get() : first ? track.in_the_way : track.waiting()[0].get();
  }
  return op;
}

WaitList Tracks::waits(const CollectiveState& operation) const {
  const CollectiveState* const op = waited_for(operation);
  return op ? track_of(*op).runner.waits() : WaitList();
}

bool Tracks::is_late(CollectiveState& operation, Clock::time_point now) const {
  const CollectiveState* const first = waited_for(operation);
  if (first && track_of(*first).runner.waits_for_stream()) operation.wait_anew(now);
  return operation.late(now);
}

std::shared_ptr<CollectiveState> Tracks::late(Clock::time_point now) const {
  for (const auto& track : tracks_) {
    if (track->current && is_late(*track->current, now)) return track->current;
    for (const Track::Collective& operation : track->waiting())
      if (is_late(*operation, now)) return operation;
  }
  return nullptr;
}

}  // namespace ringwood

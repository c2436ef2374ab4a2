#include "collectives/recorder/track_recorder.h"

#include "collectives/recorder/recorder.h"

namespace ringwood {
void StepTimes::start(const Plan& plan, uint64_t sequence) {
  plan_ = &plan;
  sequence_ = sequence;
  posted_.assign(plan.steps.size(), 0);
}

void StepTimes::posted(int32_t step) { posted_[static_cast<size_t>(step)] = clock_ns(); }

void StepTimes::completed(int32_t index) {
  const auto at = static_cast<size_t>(index);
  const BoundStep& step = plan_->steps[at];
  StepRecord record;
  record.sequence = sequence_;
  record.posted_ns = posted_[at];
  record.completed_ns = clock_ns();
  record.bytes = step.peer < 0 ? step.bytes : step.message_bytes;
  record.step = index;
  record.peer = step.peer;
  record.kind = static_cast<uint8_t>(step.kind);
  recorder_.add(record);
}

TrackRecorder::TrackRecorder(Recorder& recorder, int track)
    : recorder_(recorder), times_(recorder), track_(track) {}

void TrackRecorder::describe(const Plan& plan, const Fingerprint& call, bool whole) {
  record_ = {};
  record_.call = call;
  record_.bytes = plan.recorded.kind.bytes();
  record_.predicted_seconds = plan.recorded.predicted_seconds;
  record_.steps = static_cast<uint32_t>(plan.steps.size());
  record_.track = static_cast<uint8_t>(track_);
  record_.first_step = record_.end_step = recorder_.steps_written();
  on_ = true;
  whole_ = whole;
  shown_ = false;
  since_ns_ = 0;
}

StepTimes* TrackRecorder::begin(const Plan& plan, const Fingerprint& call, int64_t entered_ns,
                                int64_t begun_ns) {
  describe(plan, call, true);
  record_.entered_ns = entered_ns;
  record_.begun_ns = begun_ns ? begun_ns : clock_ns();
  recorder_.set_running(track_, record_);
  if (!has_recorded_steps(plan.recorded, call.sequence)) return nullptr;
  times_.start(plan, call.sequence);
  return &times_;
}

void TrackRecorder::set_agreed() { record_.agreed_ns = clock_ns(); }

void TrackRecorder::show_waiting(int64_t now_ns) {
  if (now_ns - since_ns_ < kNotable.count()) return;
  shown_ = true;
  record_.waiting_ns = since_ns_;
  recorder_.set_running(track_, record_);
}

// A wait may end within one yield of the core, so what it took is known only now.
void TrackRecorder::end(RecordedEnd how) {
  on_ = false;
  record_.end = how;
  record_.ended_ns = clock_ns();
  const bool waited = since_ns_ != 0 && record_.ended_ns - since_ns_ >= kNotable.count();
  if (!whole_ && !waited) return;
  if (waited)
    record_.waiting_ns = since_ns_;
  else
    record_.waited_for = -1;
  record_.end_step = recorder_.steps_written();
  recorder_.add(record_);
  if (whole_ || shown_) recorder_.set_running(track_, record_);
}

}  // namespace ringwood

// Writes the records of the operations of one track (runtime/tracks.h) to the group's recorder.
//
// Off between operations, and in those without a record: on() is all that the shortest operation
// looks at. Thread safety: the driver only.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"
#include "collectives/recorder/records.h"

namespace ringwood {

class Recorder;

// The times of the steps of an operation whose steps are recorded.
class StepTimes final {
 public:
  explicit StepTimes(Recorder& recorder) : recorder_(recorder) {}

  void start(const Plan& plan, uint64_t sequence);
  void posted(int32_t step);
  void completed(int32_t step);

 private:
  Recorder& recorder_;
  const Plan* plan_ = nullptr;
  uint64_t sequence_ = 0;
  std::vector<int64_t> posted_;  // by step
};

class TrackRecorder final {
 public:
  TrackRecorder(Recorder& recorder, int track);

  bool on() const { return on_; }
  // An operation that has a whole record (is_recorded()) begins. `begun_ns` 0: now. Returns where
  // the times of its steps go, or null.
  StepTimes* begin(const Plan& plan, const Fingerprint& call, int64_t entered_ns, int64_t begun_ns);
  // An operation is in flight and has made no progress for a moment; `peer` is waited for, -1:
  // none.
  void note_waiting(int64_t now_ns, const Plan& plan, const Fingerprint& call, int peer) {
    if (!on_) describe(plan, call, false);
    if (since_ns_ == 0) since_ns_ = now_ns;
    if (record_.agreed_ns == 0 && peer >= 0) record_.waited_for = peer;
    if (!shown_) show_waiting(now_ns);
  }
  // Precondition of the following: on().
  void note_agreed(bool agreed) {
    if (agreed && record_.agreed_ns == 0) set_agreed();
  }
  void end(RecordedEnd how);

 private:
  void describe(const Plan& plan, const Fingerprint& call, bool whole);
  void show_waiting(int64_t now_ns);
  void set_agreed();

  Recorder& recorder_;
  StepTimes times_;
  const int track_;
  bool on_ = false;
  // If on_:
  OperationRecord record_;
  bool whole_ = false;    // not only because the operation waits
  bool shown_ = false;    // as one that waits
  int64_t since_ns_ = 0;  // it was first seen to wait; 0: never
};

}  // namespace ringwood

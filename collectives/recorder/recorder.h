// The recorder of a group: always on, of bounded memory, and cheap enough for the shortest call.
//
// What is recorded
// 1. Counted is every call of a collective, with its bytes (call_counter.h).
// 2. A whole record (records.h) has each one that is predicted to take kAlwaysSeconds or more, and
//    one in kSampled of the others, by its number, so that all ranks record the same ones. The
//    steps are recorded of one in so many of them that the clock costs less than 1 in 1,000 of the
//    prediction, and of the sample. Both are values of the plan (plan/recording.h).
// 3. A short record has every other one that waits for more than kNotable, with the peer that it
//    waited for last. So a late rank is always seen, by those that wait for it.
//
// Memory: 4,096 operations of 128 bytes and 32,768 steps of 56 bytes at most, 2.4 MB for a group,
// which the kernel gives as they are first written; the oldest make room for new ones.
//
// Cost (./bench/scale/recording): reading the clock takes 25 ns here, so an all-reduce of 8 B,
// 130 ns, is only counted, which takes about 1 ns.
//
// Thread safety: the readers from any thread, without a lock, while the group runs and afterwards.
// Writers: the driver, through TrackRecorder (track_recorder.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/plan.h"
#include "collectives/recorder/call_counter.h"
#include "collectives/recorder/record_ring.h"
#include "collectives/recorder/records.h"
#include "transports/base/clock.h"
#include "transports/base/options.h"
#include "transports/base/seq_lock.h"

namespace ringwood {

inline constexpr size_t kRecordedOperations = 4096, kRecordedSteps = 32768;
inline constexpr Duration kNotable = std::chrono::microseconds(20);

inline int64_t clock_ns(Clock::time_point at) { return at.time_since_epoch().count(); }
inline int64_t clock_ns() { return clock_ns(Clock::now()); }

struct RecordedGroup {
  std::string name;               // "world"
  std::string session;            // equal on the ranks of a group, and of no other
  int rank = 0, size = 1;         // of this process
  std::vector<int> hosts;         // by rank: the host, numbered
  std::vector<std::string> ways;  // by rank: Mesh::way_to()
};

// Over all recorded operations.
struct PeerWaits {
  uint64_t operations = 0;  // that waited for this peer last
  int64_t waited_ns = 0;    // in them, until all ranks had called
};

class Recorder final {
 public:
  // `calls` are those of the group.
  Recorder(RecordedGroup group, std::shared_ptr<const CallCounter> calls);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const RecordedGroup& group() const { return group_; }
  CallTotals count(Collective collective) const { return calls_->of(collective); }
  PeerWaits waits_for(int peer) const;
  // The last records of operations that have ended, in the order of their ends and without a gap;
  // at most `most`, and fewer where the driver has overwritten them meanwhile.
  std::vector<OperationRecord> latest(size_t most = kRecordedOperations) const;
  // Records of operations written so far: the differences of two readings are a rate.
  uint64_t written() const { return operations_.written(); }
  // Operations in flight of those that have a record: all that have waited for kNotable.
  std::vector<OperationRecord> running() const;
  // Step records of an operation; fewer than there were where others have taken their place.
  std::vector<StepRecord> steps_of(const OperationRecord& operation) const;
  std::vector<StepRecord> latest_steps() const;
  // Step records written so far.
  uint64_t steps_written() const { return steps_.written(); }

  // The driver's.
  void add(const OperationRecord& operation);
  void add(const StepRecord& step) { steps_.add(step); }
  void set_running(int track, const OperationRecord& operation);

 private:
  struct Waits {
    std::atomic<uint64_t> operations{0}, waited_ns{0};
  };
  // One thread writes: no locked instruction.
  static void add(std::atomic<uint64_t>& counter, uint64_t more) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  const RecordedGroup group_;
  const std::shared_ptr<const CallCounter> calls_;
  std::vector<Waits> waits_;  // by peer
  std::array<SeqLock<OperationRecord>, kMaxInFlight> running_;
  RecordRing<OperationRecord, kRecordedOperations> operations_;
  RecordRing<StepRecord, kRecordedSteps> steps_;
};

// The recorders of the groups that this process has now, in the order of their creation. Any
// thread.
std::vector<std::shared_ptr<const Recorder>> recorders_of_process();
void enter_recorder(const std::shared_ptr<const Recorder>& recorder);

}  // namespace ringwood

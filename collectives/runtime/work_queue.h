// What was submitted and not yet taken by the driver, and how much is not completed: collectives in
// the order of their calls, numbered on entry, and messages, which have no order relative to them.
//
// Collectives are carried out side by side on tracks. An operation's track follows from its
// priority and the number of normal calls before it, and so is the same on all ranks: with several
// tracks, the last is that of high priority, and normal calls take the others in turn.
//
// Guarded by the engine's one mutex (role.h): `EngineLock` as a parameter means that the caller
// holds it. The other methods may be called without it, by any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/epochs/epochs.h"
#include "collectives/operations/operation.h"
#include "collectives/recorder/call_counter.h"

namespace ringwood {

using EngineLock = std::unique_lock<std::mutex>;
using Operations = std::vector<std::shared_ptr<OperationState>>;

class WorkQueue final {
 public:
  // With this number of tracks.
  explicit WorkQueue(int tracks) : tracks_(tracks) {}

  void push(const EngineLock&, std::shared_ptr<CollectiveState> operation);
  void push(const EngineLock&, std::shared_ptr<MessageState> message);
  // Begins a collective at once, bypassing the queue. It is the only one, and belongs to the
  // calling thread, until end_alone(). Precondition: idle() and admits(), as for push().
  void begin_alone(const EngineLock&, CollectiveState& operation) {
    number(operation);
    alone_.store(true, std::memory_order_relaxed);
  }
  void end_alone() { alone_.store(false, std::memory_order_release); }
  // The collective may be pushed, or begun alone, as it was planned.
  bool admits(const EngineLock&, const CollectiveState& operation) const {
    return epochs_.admit(calls_->next(), operation.call().plan->epoch);
  }
  uint64_t next_number(const EngineLock&) const { return calls_->next(); }
  // For the recorder, which outlives the queue. Any thread.
  std::shared_ptr<const CallCounter> calls() const { return calls_; }
  Epochs& epochs(const EngineLock&) { return epochs_; }
  // The number is not delayed by a change of parameters.
  bool open(uint64_t sequence) const { return epochs_.open(sequence); }
  // Nothing may be submitted any more; false where the queue was closed before.
  bool close(const EngineLock&) { return !closed_.exchange(true); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  // Takes all of them. `into` is empty; its memory is kept for the queue.
  void take(const EngineLock&, std::vector<std::shared_ptr<CollectiveState>>& into) {
    into.swap(collectives_);
  }
  void take(const EngineLock&, std::vector<std::shared_ptr<MessageState>>& into) {
    into.swap(messages_);
  }

  // Something was submitted since acknowledge().
  bool fresh() const { return fresh_.load(); }
  bool acknowledge() { return fresh_.load(std::memory_order_relaxed) && fresh_.exchange(false); }
  // The number of operations submitted and not completed.
  int pending() const { return pending_.load() + (alone_.load() ? 1 : 0); }
  bool idle() const { return pending() == 0; }
  // Does not apply to an operation begun with begin_alone().
  void completed(size_t operations) { pending_.fetch_sub(static_cast<int>(operations)); }

 private:
  void number(CollectiveState& operation);

  const int tracks_;
  std::vector<std::shared_ptr<CollectiveState>> collectives_;
  std::vector<std::shared_ptr<MessageState>> messages_;
  const std::shared_ptr<CallCounter> calls_ = std::make_shared<CallCounter>();
  int next_track_ = 0;  // track of the next normal one
  Epochs epochs_;
  std::atomic<bool> closed_{false};
  std::atomic<int> pending_{0};     // operations that were pushed
  std::atomic<bool> alone_{false};  // separate, because plain stores change it
  std::atomic<bool> fresh_{false};
};

}  // namespace ringwood

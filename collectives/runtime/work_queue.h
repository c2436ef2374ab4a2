// What was submitted and has not begun, and how much of it is not settled: collectives in the order
// of their calls, numbered on entry, and messages, which have no order with them.
//
// Guarded by the engine's one mutex (role.h): `EngineLock` as a parameter means that the caller
// holds it. idle(), pending(), fresh() and settled() may be called without, by any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/operation.h"

namespace ringwood {

using EngineLock = std::unique_lock<std::mutex>;
using Operations = std::vector<std::shared_ptr<OperationState>>;

class WorkQueue final {
 public:
  void push(const EngineLock&, std::shared_ptr<CollectiveState> operation);
  void push(const EngineLock&, std::shared_ptr<MessageState> message);
  // A collective that begins at once, past the queue. Precondition: idle().
  void admit(const EngineLock&, CollectiveState& operation) {
    number(operation);
    pending_.store(1, std::memory_order_relaxed);
  }
  // Nothing is submitted any more; false where that was so before.
  bool close(const EngineLock&) { return !std::exchange(closed_, true); }
  bool closed(const EngineLock&) const { return closed_; }

  // The next collective, or null.
  std::shared_ptr<CollectiveState> take_collective(const EngineLock&);
  std::vector<std::shared_ptr<MessageState>> take_messages(const EngineLock&);
  // All collectives, given up.
  void drop(const EngineLock&, Operations& dropped);
  // The first collective that is late, or null.
  std::shared_ptr<CollectiveState> late(const EngineLock&, Clock::time_point now) const;

  // Something was submitted since acknowledge().
  bool fresh() const { return fresh_.load(); }
  bool acknowledge() { return fresh_.load(std::memory_order_relaxed) && fresh_.exchange(false); }
  int pending() const { return pending_.load(); }  // submitted, not settled
  bool idle() const { return pending() == 0; }
  void settled(size_t operations) { pending_.fetch_sub(static_cast<int>(operations)); }

 private:
  void number(CollectiveState& operation);

  // From `first_` on; keeps its memory, so that a submission asks for none.
  std::vector<std::shared_ptr<CollectiveState>> collectives_;
  size_t first_ = 0;
  std::vector<std::shared_ptr<MessageState>> messages_;
  uint64_t sequence_ = 0;  // of the next collective
  bool closed_ = false;
  std::atomic<int> pending_{0};
  std::atomic<bool> fresh_{false};
};

}  // namespace ringwood

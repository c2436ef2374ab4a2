// The state behind an Operation handle: what is to be done, and how it ended.
//
// Life: made by the communicator, submitted to the engine, carried out by whoever drives it,
// settled once. Fields that describe the work are written before submission and read by the driver
// only; settle() and the handle's methods may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/fingerprint.h"
#include "collectives/plan.h"

namespace ringwood {

class Engine;

class OperationState : public Operation, public std::enable_shared_from_this<OperationState> {
 public:
  OperationState(std::shared_ptr<Engine> engine, std::string name, Deadline deadline);

  bool done() const noexcept override { return done_.load(std::memory_order_seq_cst); }
  Status wait(std::chrono::milliseconds timeout) override;
  void on_done(std::function<void(const Error*)> callback) override;
  int64_t sequence() const noexcept override { return number; }
  int source() const noexcept override { return done() ? from : -1; }

  // Marks it done, null = success; without callbacks, so that several can be marked before any
  // callback runs.
  void settle(std::shared_ptr<const Error> error);
  void run_callbacks();
  Status status() const;

  // The deadline may only move forward in time's favour of failing: wait(timeout) shortens it.
  bool late(Clock::time_point now) const {
    return now.time_since_epoch().count() >= deadline_.load(std::memory_order_relaxed);
  }
  void shorten(Deadline deadline);
  Clock::duration allowed() const;  // for messages: from submission to the deadline

  const std::string name;  // "all_reduce"
  int64_t number = -1;
  int from = -1;

 private:
  std::shared_ptr<Engine> engine_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<int64_t> deadline_;
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> error_;
  std::vector<std::function<void(const Error*)>> callbacks_;
};

// A collective: a plan and its buffers.
class CollectiveState final : public OperationState {
 public:
  using OperationState::OperationState;
  std::shared_ptr<const Plan> plan;
  Fingerprint fingerprint;
  std::vector<void*> buffers;
  std::vector<uint64_t> greet_counts, greeted_counts;
  // Run by the driver: after the agreement and before any data (PREMUL_SUM), and after the last
  // step (AVG).
  std::function<void()> prepare, finish;
  std::vector<std::unique_ptr<std::byte[]>> temporaries;
  bool prepared = false;
};

// A send or a receive.
class MessageState final : public OperationState {
 public:
  using OperationState::OperationState;
  bool sending = false;
  void* data = nullptr;
  size_t bytes = 0;
  int peer = -1;  // kAnySource for a receive from anyone
  uint64_t tag = 0;
};

}  // namespace ringwood

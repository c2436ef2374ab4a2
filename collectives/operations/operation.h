// The state behind an Operation handle: what is to be done, and how it ended.
//
// Life: made by the communicator, submitted to the engine, carried out by whoever drives it,
// completed once; a persistent one again and again. Fields that describe the work are written
// before submission and read by the driver only; complete() and the handle's methods may be called
// from any thread. The error, once set, stays: the group has ended.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/plan/fingerprint.h"
#include "collectives/plan/footprint.h"
#include "collectives/plan/plan.h"

namespace ringwood {

class CollectiveState;
class MessageState;
class OperationState;

// Who carries operations out: the progress engine (runtime/progress_engine.h), as operations know
// it. Thread safety: all.
class OperationDriver {
 public:
  // With `synchronous` the caller is about to wait() and nobody else is woken for it.
  // Refused, with the error that ended the group, when it has ended.
  virtual Status submit(std::shared_ptr<CollectiveState> operation, bool synchronous) = 0;
  virtual Status submit(std::shared_ptr<MessageState> message, bool synchronous) = 0;
  // submit and wait in one: where nothing else is under way the calling thread carries it out there
  // and then, without queue, other threads or system calls.
  virtual Status call(const std::shared_ptr<CollectiveState>& operation) = 0;
  // Drives, or waits for the driver, until the operation is completed.
  virtual Status wait(OperationState& operation) = 0;
  // In a handler of what a callback threw, in a thread that need not drive.
  virtual void callback_threw(const OperationState& operation) = 0;

 protected:
  ~OperationDriver() = default;
};

class OperationState : public Operation, public std::enable_shared_from_this<OperationState> {
 public:
  OperationState(std::shared_ptr<OperationDriver> driver, const char* name, Duration timeout);

  Status start() override;
  bool done() const noexcept override { return done_.load(std::memory_order_seq_cst); }
  Status wait(std::chrono::milliseconds timeout) override;
  void on_done(std::function<void(const Error*)> callback) override;
  int64_t sequence() const noexcept override { return number; }
  int source() const noexcept override { return done() ? from : -1; }

  // The time runs from the driver's first look at it, so that an operation which needs no waiting
  // asks for no time.
  bool late(Clock::time_point now);
  void shorten(Deadline deadline);
  Clock::duration allowed() const;  // from that first look to the deadline

  // Marks it done, null = success; without callbacks, so that several can be marked before any
  // callback runs.
  void complete(std::shared_ptr<const Error> error);
  // All of them; throws what the first threw that did.
  void run_callbacks();
  // Success, of an operation that only the calling thread knows.
  void complete_unshared() noexcept { done_.store(true, std::memory_order_release); }
  Status status() const;
  // It is persistent, and waits for its first start(). `synchronous`: each carries it out.
  OperationPtr hold(bool synchronous);

  const char* name;  // "all_reduce"
  int64_t number = -1;
  int from = -1;

 protected:
  // As new, where nobody else holds it.
  void renew(const char* its_name, Duration timeout) {
    name = its_name;
    timeout_ = timeout;
    begun_.store(0, std::memory_order_relaxed);
    deadline_.store(std::numeric_limits<int64_t>::max(), std::memory_order_relaxed);
    done_.store(false, std::memory_order_relaxed);
    if (!callbacks_.empty()) callbacks_.clear();
    if (error_) error_ = nullptr;
    number = -1;
    from = -1;
  }
  // Submits it once more.
  virtual Status begin(OperationDriver& driver, bool synchronous) = 0;

 private:
  enum class Kind : uint8_t { once, persistent, persistent_synchronous };

  std::shared_ptr<OperationDriver> driver_;
  Duration timeout_;
  std::atomic<int64_t> begun_{0};                                       // 0: nobody has looked yet
  std::atomic<int64_t> deadline_{std::numeric_limits<int64_t>::max()};  // shortened by a waiter
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> error_;
  std::vector<std::function<void(const Error*)>> callbacks_;  // of the run in flight
  std::vector<std::function<void(const Error*)>> due_;        // of what is completed; the driver's
  Kind kind_ = Kind::once;
};

// What is done once in an operation, if anything: mostly a copy of this rank's own block, which
// asks for no memory.
class Preparation final {
 public:
  Preparation& operator=(std::function<void()> anything) {
    anything_ = std::move(anything);
    return *this;
  }
  void copy(void* to, const void* from, size_t bytes) {
    to_ = to;
    from_ = from;
    bytes_ = bytes;
  }
  void clear() {
    bytes_ = 0;
    if (anything_) anything_ = nullptr;
  }
  explicit operator bool() const { return bytes_ > 0 || anything_; }
  void operator()() const;

 private:
  void* to_ = nullptr;
  const void* from_ = nullptr;
  size_t bytes_ = 0;
  std::function<void()> anything_;
};

// A collective: a plan and its buffers.
class CollectiveState final : public OperationState {
 public:
  using OperationState::OperationState;
  std::shared_ptr<const Plan> plan;
  Fingerprint fingerprint;  // the plan's, and from submission on with what is this call's
  Priority priority = Priority::normal;
  std::vector<void*> buffers;
  std::vector<uint64_t> send_counts, recv_counts;  // has_blocks_of_pairs(): elements, by rank
  // Run by the driver, after the agreement and before any data unless `holds` is false.
  Preparation prepare;
  // PREMUL_SUM's, by rank, where operands are scaled as they are added; what an operation before
  // this one has gathered.
  std::shared_ptr<std::vector<double>> factors;
  std::vector<std::unique_ptr<std::byte[]>> temporaries;
  // Run by the driver when it begins, before the agreement: writes only `temporaries`.
  std::function<void()> at_start;
  // Run by the driver when the data is there, before it is done.
  std::function<void()> finish;
  // What it touches besides `buffers` and `factors`; see footprint_of().
  Footprint footprint;
  int track = 0;       // which of those that may be under way at once; alike on all ranks
  uint32_t parts = 0;  // of a pack: what its fingerprint has for `blocks`
  bool prepared = false;
  bool holds = true;    // no data moves before `prepare` has run
  bool recent = false;  // the communicator's to use again

  void use(std::shared_ptr<const Plan> its_plan) {
    plan = std::move(its_plan);
    fingerprint = plan->fingerprint;
  }
  // As new, for an operation that nobody else holds any more; with the plan and the buffers of the
  // last one. Most have nothing to be cleared, and to look is cheaper.
  void reuse(const char* its_name, Duration timeout) {
    renew(its_name, timeout);
    prepare.clear();
    if (at_start) at_start = nullptr;
    if (finish) finish = nullptr;
    if (factors) factors = nullptr;
    if (!temporaries.empty()) temporaries.clear();
    footprint.clear();
    if (!send_counts.empty()) send_counts.clear();
    if (!recv_counts.empty()) recv_counts.clear();
    if (parts != 0) fingerprint = plan->fingerprint;
    parts = 0;
    prepared = false;
    holds = true;
  }

 protected:
  Status begin(OperationDriver& driver, bool synchronous) override;
};

// All that it reads and writes of its user's memory. From the first call on the driver's.
const Footprint& footprint_of(CollectiveState& state);

// What the plan's args says of has_blocks_of_pairs().
void set_pair_counts(CollectiveState& state);

// This rank's own block, while messages are on their way: after the agreement, before which nothing
// of the user's is written.
void copy_own(CollectiveState& state, void* to, const void* from, size_t bytes);

// What this rank sends of an all_gather is read from `in`, which is copied to the user's block,
// buffers[own], unless it is that.
void send_from(CollectiveState& state, size_t own, const void* in, size_t bytes);

// PREMUL_SUM where the input may be changed: it is scaled where it lies.
void premultiply_in_place(CollectiveState& state, void* data, size_t count, DataType type,
                          double factor);

// PREMUL_SUM where the input must stay as it is: copies, scaled at each start, take the place of
// the first buffers. `counts`: their elements.
void premultiply(CollectiveState& state, std::span<const size_t> counts, DataType type,
                 double factor);

// A send or a receive.
class MessageState final : public OperationState {
 public:
  using OperationState::OperationState;
  bool sending = false;
  void* data = nullptr;
  size_t bytes = 0;
  int peer = -1;  // kAnySource for a receive from anyone
  uint64_t tag = 0;

 protected:
  Status begin(OperationDriver& driver, bool synchronous) override;
};

}  // namespace ringwood

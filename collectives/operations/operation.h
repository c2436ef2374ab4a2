// The state behind an Operation handle: what is to be done, and how it ended.
//
// An operation is made by the communicator, submitted to the engine, carried out by the driving
// thread, and completed once; a persistent one repeatedly. What is to be done is written before
// submission and constant from then on; how far it is belongs to the driver. complete() and the
// handle's methods may be called from any thread. An error, once set, remains: the group has ended.
#pragma once

#include <atomic>
#include <cassert>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/call.h"
#include "collectives/operations/copied_memory.h"
#include "collectives/operations/local_work.h"
#include "collectives/plan/fingerprint.h"
#include "collectives/plan/footprint.h"
#include "collectives/plan/plan.h"
#include "transports/device_copies.h"

namespace ringwood {

class CollectiveState;
class MessageState;
class OperationState;

// What carries operations out: the progress engine (runtime/progress_engine.h), as operations see
// it. Thread safety: all methods may be called from any thread.
class OperationDriver {
 public:
  // With `synchronous` the caller is about to wait(), and no other thread is woken for it. Refused,
  // with the error that ended the group, when it has ended.
  virtual Status submit(std::shared_ptr<CollectiveState> operation, bool synchronous) = 0;
  virtual Status submit(std::shared_ptr<MessageState> message, bool synchronous) = 0;
  // submit() and wait() in one. Where nothing else is in flight the calling thread carries the
  // operation out at once, without queue, other threads or system calls.
  virtual Status call(const std::shared_ptr<CollectiveState>& operation) = 0;
  // Drives, or waits for the driver, until the operation is completed.
  virtual Status wait(OperationState& operation) = 0;
  // To be called in the handler of an exception from a callback, in a thread that need not drive.
  virtual void callback_threw(const char* operation, int64_t number) = 0;
  // The error of every use in a forked child, where no lock may be taken. Else success.
  virtual Status in_child() const = 0;

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

  // Whether the deadline has passed. The time counts from the driver's first look at the operation,
  // so that an operation which never waits does not read the clock.
  bool late(Clock::time_point now);
  // The time begins now: until now it could not begin. A waiter's deadline (shorten()) remains.
  void wait_anew(Clock::time_point now) { begun_.store(now.time_since_epoch().count()); }
  void shorten(Deadline deadline);
  Clock::duration allowed() const;  // time from that first look to the deadline

  // Marks it done, null = success. Runs no callbacks, so that several operations can be marked
  // before any callback runs.
  void complete(std::shared_ptr<const Error> error);
  // Runs all callbacks; then throws the exception of the first that threw one.
  void run_callbacks();
  // Marks success in the thread that called and drove it. One that no other thread can know, as it
  // has no handle yet, needs no lock and has no callbacks; a persistent one has.
  void complete_alone() {
    if (kind_ != Kind::once) return complete(nullptr);
    done_.store(true, std::memory_order_release);
  }
  Status status() const;
  // Adds to an error of this operation what it is, where the error does not say.
  virtual void name_in(Error& error) const;
  // The operation is persistent, and waits for its first start(). `synchronous`: each start
  // carries it out.
  OperationPtr make_persistent(bool synchronous);

  const char* name;  // "all_reduce"
  int64_t number = -1;
  int from = -1;

 protected:
  // Resets the operation. Precondition: the caller is its only holder.
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
  std::atomic<int64_t> begun_{0};                                       // 0: not looked at yet
  std::atomic<int64_t> deadline_{std::numeric_limits<int64_t>::max()};  // a waiter may shorten it
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> error_;
  std::vector<std::function<void(const Error*)>> callbacks_;  // of the run in progress
  std::vector<std::function<void(const Error*)>> due_;  // of the completed run; used by the driver
  Kind kind_ = Kind::once;
};

// What a collective is to do. The calling thread writes it; from submission on it is constant.
struct CollectiveCall {
  std::shared_ptr<const Plan> plan;
  Priority priority = Priority::normal;
  std::vector<void*> buffers;  // as the plan numbers them
  // If has_blocks_of_pairs(): elements, by rank.
  std::vector<uint64_t> send_counts, recv_counts;
  DeviceStream on;
  // Memory of a device: a copy within it, after the agreement, in the place of `prepare`.
  DeviceMove own_move;
  double factor = 1;  // likewise, of PREMUL_SUM: for what is copied out (BoundStep::premultiplies)
  // The driver's work besides the plan. When the operation begins, before the agreement: writes
  // only `temporaries`. After the agreement and, unless `prepares_first` is false, before any data
  // moves. When all data has arrived, before the operation is completed.
  LocalWork at_start, prepare, finish;
  bool prepares_first = true;  // no data moves before `prepare` is done
  // PREMUL_SUM where operands are scaled as they are added: the factors by rank, gathered by an
  // earlier operation.
  std::shared_ptr<std::vector<double>> factors;
  std::vector<std::unique_ptr<std::byte[]>> temporaries;
  // The memory that it touches besides `buffers` and `factors`; see footprint_of().
  Footprint touched;
  uint32_t parts = 0;  // of a pack: `blocks` of its fingerprint
  // Not null: the only buffer is a copy of memory whose elements lie in another order, and the
  // call is carried out in that memory where all ranks state that order (CopiedMemory::order).
  std::shared_ptr<const CopiedMemory> reordered;

  bool states_order() const { return reordered && may_state_order(*plan); }
  bool delays_data() const {
    const bool prepares = !prepare.empty() || own_move.bytes > 0;
    return prepares && (prepares_first || states_order());
  }
  // Makes `f` the plan's, with the fields of this call. In its place: to copy what was just written
  // would stall until it is in the cache.
  void state(Fingerprint& f, uint64_t sequence) const {
    f = plan->fingerprint;
    f.sequence = sequence;
    f.priority = static_cast<uint8_t>(priority);
    if (parts != 0 || reordered) [[unlikely]]
      state_elements(f);
  }

 private:
  // Of a pack, or of elements in another order.
  void state_elements(Fingerprint& f) const;
};

// How far a collective is. The queue writes the first two, at submission; the rest is the driver's.
struct CollectiveRun {
  // What is under way: one list of local work, or the plan alone.
  enum class Stage : uint8_t { at_start, prepare, plan, finish };

  int track = 0;           // on which it is carried out; the same on all ranks
  int64_t entered_ns = 0;  // the call, if it is recorded (recorder/recorder.h); else 0
  Stage stage = Stage::at_start;
  LocalWork::Progress work;   // of the stage
  uint32_t agreed_order = 0;  // CollectiveCall::reordered: what the ranks have agreed on
  void* reordered = nullptr;  // likewise: the buffer of this run
  Footprint footprint;        // of the whole call, once it is sorted
  // Of memory of a device, from the call until the plan begins: see transports/device_copies.h.
  std::optional<DeviceCopies::Operation> entered;

  void enter(Stage next) {
    stage = next;
    work = {};
  }
};

// A collective: what is to be done, and how far it is.
class CollectiveState final : public OperationState {
 public:
  using OperationState::OperationState;
  CollectiveRun run;
  // An operation that is to be submitted just before the first run of this one: it gathers the
  // factors. Null afterwards.
  std::shared_ptr<CollectiveState> gather;

  const CollectiveCall& call() const { return call_; }
  // The same, to be written. Precondition: it is not submitted, or it is done.
  CollectiveCall& draft() {
    assert(number < 0 || done());
    return call_;
  }
  // Those that this run reads and writes.
  std::span<void* const> buffers() const {
    if (call_.reordered) [[unlikely]]
      return {&run.reordered, 1};
    return call_.buffers;
  }
  // Carries it out by another plan for the same call. Precondition: as for draft().
  void change(std::shared_ptr<const Plan> other);
  // Resets an operation that has no other holder; keeps the plan and the buffers of the last run.
  void reuse(const char* its_name, Duration timeout) {
    renew(its_name, timeout);
    let_go();
    call_.parts = 0;
    call_.prepares_first = true;
  }
  // Frees what it needs only to be carried out. Precondition: it is done, or not submitted, and not
  // persistent. Most members are clear already, and checking is cheaper than clearing.
  void let_go() noexcept {
    call_.prepare.clear();
    call_.at_start.clear();
    call_.finish.clear();
    if (call_.factors) call_.factors = nullptr;
    if (call_.reordered) call_.reordered = nullptr;
    if (!call_.temporaries.empty()) call_.temporaries.clear();
    call_.touched.clear();
    if (!call_.send_counts.empty()) call_.send_counts.clear();
    if (!call_.recv_counts.empty()) call_.recv_counts.clear();
    if (run.footprint.sorted()) run.footprint.clear();
    if (gather) gather = nullptr;
  }

 protected:
  Status begin(OperationDriver& driver, bool synchronous) override;

 private:
  CollectiveCall call_;
};

// All memory of the user that it reads and writes. For the driver only.
const Footprint& footprint_of(CollectiveState& state);

// Sets the counts from the plan's arguments where has_blocks_of_pairs().
void set_pair_counts(CollectiveCall& call);

// Copies this rank's own block while messages are in flight: after the agreement, before which no
// user buffer is written.
void copy_own(CollectiveCall& call, void* to, const void* from, size_t bytes);

// Makes this rank's part of an all_gather be sent from `in`, which is copied to the user's block,
// buffers[own], unless it is that block.
void send_from(CollectiveCall& call, size_t own, const void* in, size_t bytes);

// Makes its buffers copies of that memory. With CopiedMemory::order a copy is made only where the
// ranks' orders differ, after the agreement, which says so.
void use_copies(CollectiveState& state, const std::shared_ptr<const CopiedMemory>& copied);

// PREMUL_SUM where the input, the only buffer, may be changed: scales it in place. With memory of a
// device, here and below, its copies in the scratch are scaled.
void premultiply_in_place(CollectiveCall& call, size_t count, DataType type, double factor);

// PREMUL_SUM where the input must not be changed: copies, scaled at each start, replace the first
// buffers. `counts`: their elements.
void premultiply(CollectiveCall& call, std::span<const size_t> counts, DataType type,
                 double factor);

// A send or a receive.
class MessageState final : public OperationState {
 public:
  using OperationState::OperationState;
  bool sending = false;
  void* data = nullptr;
  size_t bytes = 0;
  int peer = -1;  // kAnySource: a receive from any rank
  uint64_t tag = 0;
  DeviceStream on;  // of the data
  // Memory of a device, from the call until it is done: what the link sends, or receives into,
  // instead of the data; until its stream goes on: see transports/device_copies.h.
  std::byte* staging = nullptr;
  std::optional<DeviceCopies::Operation> entered;

  bool on_device() const { return on.device >= 0; }
  void* on_host() const { return on_device() ? staging : data; }
  // "recv with tag 7", and the peer.
  void name_in(Error& error) const override;

 protected:
  Status begin(OperationDriver& driver, bool synchronous) override;
};

}  // namespace ringwood

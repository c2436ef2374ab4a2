// Carries out the operations of a group. It has four parts: which thread drives (role.h), how that
// thread waits (waiter.h), what is submitted (work_queue.h) and what is in flight (in_flight.h).
// The group ends with its first error (group_error.h), which may come from the watchdog of late
// operations (watchdog.h).
//
//   submit ---> queue ---> in flight ---> completed: waiters are notified, callbacks run
//                 ^            ^               |
//                 |          drive: iteration after iteration; the waiter waits after one in vain
//            call(): bypasses the queue and all other threads, where nothing else is in flight
//
// How long an iteration lasts is what a small call of high priority waits for at most: the message
// of one link and about as much local work (executors/executor.h). At most 1.3 ms of a core were
// measured over one link (bench/scale/high_priority.cc). In one go, and so longer for large ones,
// are done: the copies of CopiedMemory (strided tensors), a message that is encoded or rounded for
// a wire format, and the measurement of the network.
//
// The first error goes to the control connection; the group's error comes back to every rank and
// completes everything that is pending there. Links are aborted first, so the buffers of a
// completed operation are never touched again; of those in memory of a device, copies that were
// begun end later, but before their stream goes on. An exception on the data path or in a callback
// becomes such an error, too: it never leaves the driver.
//
// Lock order: see role.h. Thread safety: all public methods may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/operations/operation.h"
#include "collectives/runtime/device_calls.h"
#include "collectives/runtime/group_error.h"
#include "collectives/runtime/in_flight.h"
#include "collectives/runtime/parameter_follower.h"
#include "collectives/runtime/role.h"
#include "collectives/runtime/waiter.h"
#include "collectives/runtime/watchdog.h"
#include "collectives/runtime/work_queue.h"
#include "transports/base/fork_guard.h"
#include "transports/cache_line.h"
#include "transports/cuda/loaded_driver.h"
#include "transports/mesh.h"

namespace ringwood {

class TunerSetup;  // tuner/tuner.h
struct Observed;   // observed.h

class alignas(kCacheLine) ProgressEngine final
    : public OperationDriver,
      public std::enable_shared_from_this<ProgressEngine> {
 public:
  // Collective (see make_mesh). Throws Error. `setup`: what the ranks agree on before they choose;
  // null on all ranks: the defaults.
  static std::shared_ptr<ProgressEngine> create(std::shared_ptr<Store> store, int rank, int size,
                                                const Options& options,
                                                const std::string& name = "world",
                                                TunerSetup* setup = nullptr);
  ~ProgressEngine();

  // With memory of a device it also enters its stream, in the order of the operations' numbers. An
  // error of the device that all ranks need not have ends the group; others are returned.
  Status submit(std::shared_ptr<CollectiveState> operation, bool synchronous) override;
  Status submit(std::shared_ptr<MessageState> message, bool synchronous) override;
  Status call(const std::shared_ptr<CollectiveState>& operation) override;
  Status wait(OperationState& operation) override;
  void callback_threw(const char* operation, int64_t number) override {
    error_.end_by_callback(operation, number);
  }
  // Like call(), where nothing else is in flight and the group has not ended, for the operation
  // that find(lock) returns with the lock held. Returns false where that is not so, find()
  // returned null, or the operation must be planned anew; it is not begun then.
  template <class Find>
  bool call_alone(Find find) {
    if (forked_since(mesh_->process)) return false;
    CollectiveState* operation = nullptr;
    {
      const EngineLock held = lock();
      if (!error_.is_set() && !queue_.closed() && role_.free(held)) operation = find(held);
      if (!operation || !queue_.admits(held, *operation)) return false;
      queue_.begin_alone(held, *operation);
      role_.take(held);
    }
    drive_alone(*operation);
    return true;
  }
  EngineLock lock() const { return role_.lock(); }

  // To be called before the first collective; what it makes can then change (epochs/epochs.h).
  void use(std::shared_ptr<Planner> planner) { follower_.use(role_.lock(), std::move(planner)); }

  void abort(const std::string& reason);
  Status shutdown(std::chrono::milliseconds timeout);
  // The error with which this group ended, if it has; also in a forked child.
  Status health() const;
  Status in_child() const override;
  // See Communicator::set_interrupt_check.
  InterruptCheck interrupted;
  const Mesh& mesh() const { return *mesh_; }
  // Throws the Error of a buffer that is not memory of that device, or of the host where it is -1,
  // and of a stream that cannot be used.
  void check_place(const char* what, const DeviceStream& on, std::span<void* const> buffers) {
    if (on.device >= 0 || cuda::LoadedDriver::known()) [[unlikely]]
      check_kind(what, on, buffers);
  }
  // Calls launch(), in which this thread submits the calls of a group (device_calls.h).
  void launch_together(const std::function<void()>& launch);
  bool reads_in_place() const { return work_->collectives.reads_in_place(); }

 private:
  explicit ProgressEngine(const Options& options);

  void check_kind(const char* what, const DeviceStream& on, std::span<void* const> buffers);
  template <class State>
  Status enqueue(std::shared_ptr<State> operation, bool synchronous);
  // Unless the caller is about to drive, there is a thread that does. Gives the lock up on error.
  Status need_driver(EngineLock& held, bool synchronous);
  template <class State>
  Status submit_on_device(std::shared_ptr<State> operation, bool synchronous);
  template <class State>
  Status refuse_on_device(EngineLock& held, State& operation);
  template <class State>
  Result<bool> push_entered(const std::shared_ptr<State>& operation, bool synchronous);
  // Ends the group with an error of a device, except one of the caller; returns what to tell it.
  Error end_unless_callers(Error error, const char* collective);
  Status refusal() const;
  // Makes a collective one that the queue admits: waits until its number is not delayed, and
  // plans it anew. Precondition: the queue does not admit it. The lock is held again on success.
  Status admit(EngineLock& held, CollectiveState& operation);
  // Drives the operation that bypassed the queue, with the role, which is given back.
  void drive_alone(CollectiveState& operation);
  // Makes iterations until done(). `patient`: no thread waits for them.
  template <class Done>
  void drive(bool patient, Done done);
  void iterate(bool& progressed, Operations& finished);
  void take();
  void drop(Operations& dropped);
  // Completes the operations, null = success, notifies their waiters and runs their callbacks.
  void deliver(Operations& finished, const std::shared_ptr<const Error>& error);
  // Called now and then in a waiting thread, which keeps `asked`.
  void check_interrupt(Clock::time_point& asked);

  std::unique_ptr<Mesh> mesh_;
  WorkQueue queue_;
  Waiter waiter_;
  GroupError error_;
  Watchdog watchdog_;
  const std::unique_ptr<Observed> observed_;
  std::unique_ptr<DeviceCalls> device_calls_;  // work_ uses it
  std::unique_ptr<InFlight> work_;
  Role role_;
  ParameterFollower follower_;
  // The driver's: empty lists between two iterations, kept for their memory.
  Operations spare_;
  std::vector<std::shared_ptr<CollectiveState>> taken_;
  bool links_aborted_ = false;
};

}  // namespace ringwood

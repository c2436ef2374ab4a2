// Who carries out operations: whichever thread waits, or else one progress thread; and how the
// group fails as one.
//
// The driver's role belongs to one thread at a time. A thread in Operation::wait takes it; while
// nobody waits and something is pending, the progress thread (started with the first asynchronous
// call) holds it and gives it back when a waiter comes. The driver spins only if every rank of the
// host has a core and it is a waiter, then yields, then sleeps in the mesh's wait set, which every
// wake source reaches.
//
// Failure: the first error, from a link, a deadline, the caller's abort or another rank, goes to
// the control connection; the group's verdict comes back to every rank and settles all that is
// pending there. Links are aborted first, so a settled operation's buffers are never touched again.
// What the data path or a callback throws is such an error, too: it never leaves the driver.
//
// Lock order: mutex_ is never held while calling links, callbacks or control. Thread safety: all
// public methods.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/executor.h"
#include "collectives/operation.h"
#include "collectives/point_to_point.h"
#include "collectives/posted.h"
#include "transports/adopt.h"
#include "transports/mesh.h"

namespace ringwood {

class ProgressEngine final : public std::enable_shared_from_this<ProgressEngine> {
 public:
  // Collective (see make_mesh). Throws Error.
  static std::shared_ptr<ProgressEngine> create(std::shared_ptr<Store> store, int rank, int size,
                                                const Options& options,
                                                const std::string& announcement = "");
  ~ProgressEngine();

  // FIFO. With `synchronous` the caller is about to wait() and nobody else is woken for it.
  // Refused, with the error that ended the group, when it has ended.
  Status submit(std::shared_ptr<CollectiveState> operation, bool synchronous);
  Status submit(std::shared_ptr<MessageState> message, bool synchronous);
  // submit and wait in one: where nothing else is under way the calling thread carries it out there
  // and then, without queue, other threads or system calls.
  Status call(const std::shared_ptr<CollectiveState>& operation);
  // Drives, or waits for the driver, until the operation is settled.
  Status wait(OperationState& operation);

  void abort(const std::string& reason);
  Status shutdown(std::chrono::milliseconds timeout);
  // The error that ended this group, if one did; also in a forked child.
  Status health() const;
  // See Communicator::set_interrupt_check.
  Communicator::InterruptCheck interrupted;
  // In a handler of what a callback threw, in a thread that need not drive.
  void callback_threw(const OperationState& operation);
  const Mesh& mesh() const { return *mesh_; }
  bool reads_in_place() const { return executor_->reads_in_place(); }

 private:
  using Settled = std::vector<std::shared_ptr<OperationState>>;
  ProgressEngine(const Options& options);

  // Handlers of the control connection.
  Standing standing() const;
  void failed(const Error& error);
  void left(int rank);

  template <class Until>
  void drive(bool patient, Until until);
  void progress(bool armed, bool& progressed, Settled& settled);
  Status run_collective(bool& progressed, Settled& settled);
  void run_callbacks(OperationState& operation);
  void adopt(const CollectiveState& operation);
  void take_work();
  void deliver(Settled& settled, const std::shared_ptr<const Error>& error);
  void fail_everything(Settled& settled);
  void check_clock();
  // In a waiting thread, with `asked` kept by it: now and then.
  void check_interrupt(Clock::time_point& asked);
  std::shared_ptr<CollectiveState> late_collective(Clock::time_point now) const;
  void check_departed();
  void tell_who_is_late();
  void report(Error error, const OperationState* operation);
  void wake_driver();
  void stamp(CollectiveState& operation);
  bool take_role_for(const std::shared_ptr<CollectiveState>& operation, Status& refused);
  Status ended() const;  // with mutex_ held
  template <class Queue, class State>
  Status enqueue(Queue& queue, State state, bool synchronous);
  void serve(const std::weak_ptr<ProgressEngine>& self);
  Status end_group(Error error);
  bool idle() const { return pending_.load() == 0; }
  void fail_locally(const Error& error);

  Options options_;
  std::unique_ptr<Mesh> mesh_;
  std::atomic<WaitSet*> bell_{nullptr};  // the mesh's, which is still being made when handlers run
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<PointToPoint> messages_;
  Adopted* adopted_ = nullptr;  // null: no buffer is to become shared
  bool may_spin_ = false;
  Duration spin_{};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CollectiveState>> queue_;       // submitted, not begun
  std::vector<std::shared_ptr<MessageState>> new_messages_;  // submitted, not taken
  std::atomic<bool> driven_{false};  // the role is taken: with mutex_ held; given back: call()
  std::thread::id driver_;           // who took it last
  uint64_t sequence_ = 0;            // of the next collective
  bool closed_ = false;
  std::atomic<bool> stopping_{false};
  std::shared_ptr<const Error> failure_;
  std::thread service_;

  std::atomic<int> waiters_{0};
  std::atomic<int> pending_{0};  // submitted, not settled
  std::atomic<bool> failed_{false}, new_work_{false}, sleeping_{false}, service_drives_{false};

  // The driver's own.
  std::shared_ptr<CollectiveState> current_;
  const CollectiveState* unshared_ = nullptr;  // of call(): its handle has not been given out
  bool reported_ = false, links_aborted_ = false;
  bool moved_ = true;            // since the last look at the deadlines
  Clock::time_point checked_{};  // that look
  // For how long this rank has looked for progress since the last, or since a rank left.
  Duration in_vain_{};
  int known_departures_ = 0;
  bool told_ = false;  // for whom it looks

  Posted<Fingerprint> standing_;  // of the collective that runs or ran last
  std::atomic<bool> inside_{false}, begun_{false};
  mutable std::mutex departed_mutex_;
  std::vector<int> departed_;  // ranks that said goodbye
  std::atomic<int> departures_{0};
};

}  // namespace ringwood

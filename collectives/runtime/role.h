// Which thread drives: at most one at a time has the driver's role.
//
// A waiting thread takes the role if it is free. While no thread waits and something is
// pending, the progress thread (started with the first asynchronous call) has the role, and
// gives it back when a waiter comes. A callback that runs in the driving thread already has the
// role and may drive on.
//
// The engine's one mutex is here. It also guards the queue (work_queue.h), so that one lock admits
// a call and takes the role. It is never held while links, callbacks or the control connection are
// called. The mutexes of an operation, of the group's error and of the watchdog are leaves below
// it. An EngineLock as a parameter means that the caller holds it.
//
// Thread safety: all methods may be called from any thread, except those marked "the driver".
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/runtime/waiter.h"
#include "collectives/runtime/work_queue.h"

namespace ringwood {

class Role final {
 public:
  // `queue` tells whether there is anything to drive.
  Role(Waiter& waiter, const WorkQueue& queue) : waiter_(waiter), queue_(queue) {}
  EngineLock lock() const { return EngineLock(mutex_); }

  // The caller is a waiter until done(), which is called with the lock held. It calls drive(),
  // without the lock, whenever no other thread drives, and paused(), also without, each time
  // another thread has driven for another `pause`.
  template <class Done, class Drive, class Paused>
  void wait_until(Duration pause, Done done, Drive drive, Paused paused);
  // The calling thread drives already: the call comes from a callback.
  bool mine(const EngineLock&) const { return taken_ && driver_ == std::this_thread::get_id(); }

  // Whether a call may take the role without being a waiter: the role is free and
  // nothing is pending.
  bool free(const EngineLock&) const { return !taken_ && queue_.idle(); }
  void take(const EngineLock&) {
    taken_.store(true, std::memory_order_relaxed);
    driver_ = std::this_thread::get_id();
  }
  // Ends such a drive, without the lock. This is safe because a thread that finds the role taken
  // has incremented waiters_, or the number of pending operations, before.
  void give_back() {
    taken_.store(false, std::memory_order_seq_cst);
    if (waiters_.load() > 0 || !queue_.idle()) [[unlikely]]
      notify();
  }

  // Precondition: there is no progress thread yet. It calls drive() whenever something is pending
  // and no thread waits, until stop() or the end of `owner`, which is kept alive during each drive.
  // Throws Error(system).
  void start_progress_thread(const EngineLock&, std::weak_ptr<void> owner,
                             std::function<void()> drive);
  bool has_progress_thread(const EngineLock&) const { return progress_thread_.joinable(); }
  // Something was submitted for the progress thread.
  void notify_progress_thread(const EngineLock&) {
    if (!taken_) changed_.notify_all();
  }
  // A thread waits: the progress thread is to give the role back.
  bool wanted() const { return waiters_.load() > 0; }
  // Ends the progress thread. It has ended on return, unless it is the caller.
  void stop();
  // To be called at the owner's end: after stop(), or when the progress thread itself
  // caused that end.
  void join();

  // Makes all waiters look again.
  void notify();
  // Likewise, and the driver.
  void wake_all() {
    notify();
    waiter_.ring();
  }
  // The driver: likewise, if another thread may wait.
  void notify_others() {
    if (waiters_.load() > (driver_waits_ ? 1 : 0) || stopping_.load()) notify();
  }

 private:
  void serve(const std::weak_ptr<void>& owner, const std::function<void()>& drive);
  bool in_progress_thread() const {
    return progress_thread_.get_id() == std::this_thread::get_id();
  }

  Waiter& waiter_;
  const WorkQueue& queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Set with the lock held, which orders it; cleared without by give_back().
  std::atomic<bool> taken_{false};
  std::thread::id driver_;     // the last thread that took it
  bool driver_waits_ = false;  // the driver is one of the waiters
  bool progress_thread_drives_ = false;
  std::atomic<int> waiters_{0};
  std::atomic<bool> stopping_{false};
  std::thread progress_thread_;
};

template <class Done, class Drive, class Paused>
void Role::wait_until(Duration pause, Done done, Drive drive, Paused paused) {
  EngineLock held = lock();
  waiters_.fetch_add(1);
  while (!done()) {
    const bool nested = mine(held);
    if (taken_ && !nested) {
      if (progress_thread_drives_) waiter_.wake();
      if (changed_.wait_for(held, pause) == std::cv_status::timeout) {
        held.unlock();
        paused();
        held.lock();
      }
      continue;
    }
    if (!nested) {
      take(held);
      driver_waits_ = true;
    }
    held.unlock();
    drive();
    held.lock();
    if (!nested) taken_ = driver_waits_ = false;
  }
  if (waiters_.fetch_sub(1) > 1 || !queue_.idle()) changed_.notify_all();
}

}  // namespace ringwood

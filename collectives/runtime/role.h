// Which thread drives: one at a time has the driver's role.
//
// A thread that waits takes the role where nobody has it; while nobody waits and something is
// pending, the service thread (started with the first asynchronous call) has it, and gives it back
// when a waiter comes. A thread that is called back while it drives has the role already and may
// drive on from there.
//
// The engine's one mutex is here; it also guards the queue (work_queue.h), so that one lock admits
// a call and takes the role. It is never held while links, callbacks or the control connection are
// called; the mutexes of an operation, of the group's error and of the watchdog are leaves below
// it. An EngineLock as a parameter: the caller holds it.
//
// Thread safety: all methods, but where one says "the driver".
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
  // The queue tells whether there is anything to drive.
  Role(Waiter& waiter, const WorkQueue& queue) : waiter_(waiter), queue_(queue) {}
  EngineLock lock() const { return EngineLock(mutex_); }

  // Until done(), asked with the lock held, the caller is a waiter: it calls drive(), without the
  // lock, whenever nobody else drives, and paused(), also without, each time another thread has
  // driven on for `pause`.
  template <class Done, class Drive, class Paused>
  void wait_until(Duration pause, Done done, Drive drive, Paused paused);
  // The calling thread drives already: it is called from a callback.
  bool mine(const EngineLock&) const { return taken_ && driver_ == std::this_thread::get_id(); }

  // For a call that nothing else is under way with: takes the role, without being a waiter.
  bool free(const EngineLock&) const { return !taken_ && queue_.idle(); }
  void take(const EngineLock&) {
    taken_.store(true, std::memory_order_relaxed);
    driver_ = std::this_thread::get_id();
  }
  // Its end, without the lock: whoever finds the role taken has been counted as a waiter, or its
  // work as pending, before.
  void give_back() {
    taken_.store(false, std::memory_order_seq_cst);
    if (waiters_.load() > 0 || !queue_.idle()) [[unlikely]]
      notify();
  }

  // Precondition: there is none. The service thread calls drive() whenever something is pending and
  // nobody waits, until stop() or the end of `owner`, which is kept alive meanwhile. Throws
  // Error(system).
  void start_service(const EngineLock&, std::weak_ptr<void> owner, std::function<void()> drive);
  bool has_service(const EngineLock&) const { return service_.joinable(); }
  // Something was submitted for it.
  void notify_service(const EngineLock&) {
    if (!taken_) changed_.notify_all();
  }
  // Somebody waits: the service thread is to give the role back.
  bool wanted() const { return waiters_.load() > 0; }
  // The service thread is to end; unless it is the caller, it has.
  void stop();
  // The owner's end, after stop(), or which the service thread itself has brought about.
  void join();

  // Whoever waits looks again.
  void notify();
  // The driver: likewise, if anybody may.
  void notify_others() {
    if (waiters_.load() > (driver_waits_ ? 1 : 0) || stopping_.load()) notify();
  }

 private:
  void serve(const std::weak_ptr<void>& owner, const std::function<void()>& drive);
  bool in_service() const { return service_.get_id() == std::this_thread::get_id(); }

  Waiter& waiter_;
  const WorkQueue& queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Set with the lock held, which orders it; cleared without by give_back().
  std::atomic<bool> taken_{false};
  std::thread::id driver_;     // who took it last
  bool driver_waits_ = false;  // the driver is one of the waiters
  bool service_drives_ = false;
  std::atomic<int> waiters_{0};
  std::atomic<bool> stopping_{false};
  std::thread service_;
};

template <class Done, class Drive, class Paused>
void Role::wait_until(Duration pause, Done done, Drive drive, Paused paused) {
  EngineLock held = lock();
  waiters_.fetch_add(1);
  while (!done()) {
    const bool nested = mine(held);
    if (taken_ && !nested) {
      if (service_drives_) waiter_.wake();
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

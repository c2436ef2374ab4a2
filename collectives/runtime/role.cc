#include "collectives/runtime/role.h"

#include "transports/base/thread.h"

namespace ringwood {

void Role::join() {
  if (!progress_thread_.joinable()) return;
  if (in_progress_thread())
    progress_thread_.detach();
  else
    progress_thread_.join();
}

void Role::notify() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Role::start_progress_thread(const EngineLock&, std::weak_ptr<void> owner,
                                 std::function<void()> drive) {
  progress_thread_ = start_thread("ringwood", [this, owner = std::move(owner),
                                               drive = std::move(drive)] { serve(owner, drive); });
}

// In a callback the driver may hold the last handle on the owner, which must outlive the drive.
void Role::serve(const std::weak_ptr<void>& owner, const std::function<void()>& drive) {
  std::shared_ptr<void> kept;
  EngineLock held = lock();
  while (!stopping_) {
    if (taken_ || queue_.idle() || wanted()) {
      changed_.wait(held);
      continue;
    }
    take(held);
    progress_thread_drives_ = true;
    held.unlock();
    kept = owner.lock();
    drive();
    held.lock();
    progress_thread_drives_ = taken_ = false;
    changed_.notify_all();
    if (stopping_) break;
    held.unlock();
    kept.reset();
    if (owner.expired()) return;
    held.lock();
  }
  held.unlock();  // before `kept`, whose end may destroy the mutex
}

void Role::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (progress_thread_.joinable() && !in_progress_thread()) progress_thread_.join();
}

}  // namespace ringwood

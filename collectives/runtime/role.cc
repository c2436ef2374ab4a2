#include "collectives/runtime/role.h"

#include "transports/base/thread.h"

namespace ringwood {

void Role::join() {
  if (!service_.joinable()) return;
  if (in_service())
    service_.detach();
  else
    service_.join();
}

void Role::notify() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Role::start_service(const EngineLock&, std::weak_ptr<void> owner,
                         std::function<void()> drive) {
  service_ = start_thread("ringwood", [this, owner = std::move(owner), drive = std::move(drive)] {
    serve(owner, drive);
  });
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
    service_drives_ = true;
    held.unlock();
    kept = owner.lock();
    drive();
    held.lock();
    service_drives_ = taken_ = false;
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
  if (service_.joinable() && !in_service()) service_.join();
}

}  // namespace ringwood

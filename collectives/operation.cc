#include "collectives/operation.h"

#include "collectives/engine.h"

namespace ringwood {

OperationState::OperationState(std::shared_ptr<Engine> engine, std::string name_, Deadline deadline)
    : name(std::move(name_)),
      engine_(std::move(engine)),
      deadline_(deadline.at().time_since_epoch().count()) {}

Status OperationState::wait(std::chrono::milliseconds timeout) {
  if (!done()) {
    if (timeout.count() > 0) shorten(Deadline::after(timeout));
    if (Status s = engine_->wait(*this); !s) return s;
  }
  return status();
}

Status OperationState::status() const {
  std::lock_guard lock(mutex_);
  return error_ ? Status(*error_) : Status();
}

void OperationState::on_done(std::function<void(const Error*)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!done_.load()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error_.get());  // never changes once done
}

void OperationState::settle(std::shared_ptr<const Error> error) {
  std::lock_guard lock(mutex_);
  error_ = std::move(error);
  done_.store(true);
}

void OperationState::run_callbacks() {
  std::vector<std::function<void(const Error*)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    callbacks.swap(callbacks_);
  }
  for (auto& callback : callbacks) callback(error_.get());
}

void OperationState::shorten(Deadline deadline) {
  const int64_t at = deadline.at().time_since_epoch().count();
  int64_t now = deadline_.load();
  while (at < now && !deadline_.compare_exchange_weak(now, at)) {
  }
}

Clock::duration OperationState::allowed() const {
  return Clock::time_point(Clock::duration(deadline_.load())) - begun_;
}

}  // namespace ringwood

#include "collectives/calls/grouped_operation.h"

#include <utility>

#include <fmt/format.h>

namespace ringwood {

Status GroupedOperation::start() {
  return Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: cannot be started again; make it with CallOptions::persistent", name_));
}

bool GroupedOperation::done() const noexcept {
  if (refused_.load(std::memory_order_acquire)) return true;
  return carrier() && carrier()->done();
}

Status GroupedOperation::wait(std::chrono::milliseconds timeout) {
  if (refused_.load(std::memory_order_acquire)) return *error_;
  if (carrier()) return carrier()->wait(timeout);
  return Error(ErrorCode::invalid_argument,
               fmt::format("{}: its group has not ended; it begins with group_end()", name_));
}

void GroupedOperation::on_done(std::function<void(const Error*)> callback) {
  const Status lost = driver_->in_child();
  if (lost) {
    std::lock_guard lock(mutex_);
    if (!carrier_ && !error_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  if (Operation* const known = carrier())
    known->on_done(std::move(callback));
  else
    call(callback, lost ? *error_ : lost.error());
}

void GroupedOperation::call(const std::function<void(const Error*)>& callback,
                            const Error& error) const {
  try {
    callback(&error);
  } catch (...) {
    driver_->callback_threw(name_, -1);
  }
}

int64_t GroupedOperation::sequence() const noexcept {
  return carrier() ? carrier()->sequence() : -1;
}

int GroupedOperation::source() const noexcept { return carrier() ? carrier()->source() : -1; }

void GroupedOperation::carry(OperationPtr carrier) {
  std::vector<std::function<void(const Error*)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    carrier_ = std::move(carrier);
    known_.store(carrier_.get(), std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  for (auto& callback : callbacks) carrier_->on_done(std::move(callback));
}

void GroupedOperation::refuse(const Error& error) {
  std::vector<std::function<void(const Error*)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    error_ = error;
    refused_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) call(callback, *error_);
}

}  // namespace ringwood

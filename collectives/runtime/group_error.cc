#include "collectives/runtime/group_error.h"

#include <utility>

#include "transports/base/host.h"
#include "transports/base/result.h"
#include "transports/bootstrap/net.h"

namespace ringwood {
namespace {

// The control connection needs 0.3 s where rank 0 does not answer, and longer where its thread is
// delayed.
constexpr Duration kMaxWait = std::chrono::seconds(5);

// To be called in an exception handler.
Error thrown_by_callback() {
  Error error = caught_error();
  error.cause = "a callback of the operation threw: " + error.cause;
  return error;
}

}  // namespace

void GroupError::report(Error error, const OperationState* operation) {
  if (std::exchange(reported_, true)) return;
  if (operation) operation->name_in(error);
  if (error.rank < 0) error.rank = mesh_->rank;
  if (error.host.empty()) error.host = host_name();
  if (error.transport.empty() && error.peer >= 0 && error.code != ErrorCode::mismatch)
    error.transport = mesh_->peers[error.peer].transport;
  mesh_->control->fail(std::move(error));
}

void GroupError::report_callback(const OperationState& operation) {
  report(thrown_by_callback(), &operation);
}

Error GroupError::end(Error error) {
  error.rank = mesh_->rank;
  error.host = host_name();
  mesh_->control->fail(error);
  {
    std::unique_lock lock(mutex_);
    known_.wait_for(lock, kMaxWait, [this] { return error_ != nullptr; });
  }
  set(error);  // unless it is known
  return *get();
}

void GroupError::end_by_callback(const char* operation, int64_t number) {
  Error error = thrown_by_callback();
  error.collective = operation;
  error.sequence = number;
  (void)end(std::move(error));
}

void GroupError::set(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::make_shared<const Error>(error);
    set_.store(true);
  }
  known_.notify_all();
  wake_();
}

std::shared_ptr<const Error> GroupError::get() const {
  std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace ringwood

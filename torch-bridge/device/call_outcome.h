// What becomes of the operations of a call on a device: told by the communicator's threads, which
// must touch no tensor and need no lock of Python's.
//
// Thread safety: all functions.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "torch-bridge/device/unseen_error.h"
#include "torch-bridge/flight_recorder.h"

namespace ringwood {

class CallOutcome final : public std::enable_shared_from_this<CallOutcome> {
 public:
  using Operations = std::vector<OperationPtr>;

  CallOutcome(std::weak_ptr<Communicator> group, std::shared_ptr<UnseenError> unseen,
              FlightRecorder::Ticket ticket)
      : group_(std::move(group)), unseen_(std::move(unseen)), ticket_(ticket) {}

  // Once.
  void follow(const Operations& operations) {
    {
      const std::lock_guard lock(mutex_);
      operations_ = operations;
      pending_ = operations.size();
    }
    for (const OperationPtr& operation : operations)
      operation->on_done([self = shared_from_this()](const Error* error) { self->ended(error); });
  }
  // None once all have ended: an operation keeps its communicator alive.
  Operations operations() const {
    const std::lock_guard lock(mutex_);
    return operations_;
  }
  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  // The group has failed, and its error is about to reach these operations.
  bool about_to_fail() const {
    {
      const std::lock_guard lock(mutex_);
      if (pending_ == 0 || error_) return false;
    }
    const auto group = group_.lock();
    return group && !group->health();
  }
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  // The error is about to be raised.
  void seen() { unseen_->seen(); }
  // Of the first operation.
  int source() const {
    const std::lock_guard lock(mutex_);
    return operations_.empty() ? source_ : operations_[0]->source();
  }
  uint64_t sequence() const {
    const std::lock_guard lock(mutex_);
    return static_cast<uint64_t>(operations_.empty() ? sequence_ : operations_[0]->sequence());
  }

 private:
  void ended(const Error* error) {
    if (error) {
      fail(*error);
      unseen_->note(*error);
    }
    Operations forgotten;
    std::optional<Error> all;
    {
      const std::lock_guard lock(mutex_);
      if (--pending_ > 0) return;
      source_ = operations_[0]->source();
      sequence_ = operations_[0]->sequence();
      forgotten.swap(operations_);
      all = error_;
    }
    FlightRecorder::instance().end(ticket_, !all, source_);
    if (all) FlightRecorder::instance().dump_failure(ticket_.rank_in_job);
  }

  const std::weak_ptr<Communicator> group_;
  const std::shared_ptr<UnseenError> unseen_;
  const FlightRecorder::Ticket ticket_;
  mutable std::mutex mutex_;  // all below
  Operations operations_;
  size_t pending_ = 0;
  std::optional<Error> error_;
  int source_ = -1;
  int64_t sequence_ = 0;
};

}  // namespace ringwood

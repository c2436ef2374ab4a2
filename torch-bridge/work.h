// The handle torch gets for a call: a c10d::Work around the communicator's operations.
//
// Order at the end of a call:
// 1. Data: what is made of what has arrived (afterwards()), and the profiler's range ends. Done by
//    the thread that sees the end first: the one in wait(), or the communicator's progress thread.
// 2. The Future is completed, which runs callbacks of the user's, and the inputs are released.
//    Never in the progress thread, which moves the data of all calls: callbacks may be Python, need
//    the GIL and wait for other calls, and a tensor may need the GIL to die.
//
// User code (callbacks, the making of outputs) runs with the thread-local state of the thread that
// made the call: grad mode, inference mode, autocast, profiler.
//
// Thread safe. Holds no lock while callbacks run. Does not use the base's wait(). A Work that has
// ended keeps nothing of its group alive.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "torch-bridge/device/unseen_error.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/flight_recorder.h"
#include "torch-bridge/interpreter_end.h"
#include "torch-bridge/interrupt.h"
#include "torch-bridge/tensors.h"
#include "transports/base/clock.h"
#include "transports/base/log.h"
#include "transports/base/thread.h"

namespace ringwood {

// Threads for callbacks. One is there from the group's start to its end; one more is started
// whenever all are busy, since a callback may wait for a Future that only another of these threads
// can complete, and ends after a second without work. Where the limit of threads is reached, jobs
// wait for those there are. They are never joined (a callback may hold the last reference to the
// group), and own what they use.
class CallbackThreads final : public std::enable_shared_from_this<CallbackThreads> {
 public:
  // Throws Error(system).
  static std::shared_ptr<CallbackThreads> start() {
    auto threads = std::make_shared<CallbackThreads>();
    threads->start_one();
    return threads;
  }
  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      if (idle_ >= jobs_.size()) return wake_.notify_one();
    }
    try {
      start_one();
    } catch (const Error& refused) {
      log(LogLevel::warn, "torch", "a callback waits for the others: " + refused.cause);
      std::unique_lock lock(mutex_);
      while (threads_ == 0 && !jobs_.empty()) do_one(lock);  // the group has ended
    }
  }
  // From now on no thread waits for more work. Work may still come.
  void end_when_idle() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  // Waits until nothing is left to do, but not longer than `most`.
  void drain(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    quiet_.wait_for(lock, most, [&] { return jobs_.empty() && busy_ == 0; });
  }

 private:
  void start_one() {
    const auto self = shared_from_this();
    {
      const std::lock_guard lock(mutex_);
      ++threads_;
    }
    try {
      start_thread("ringwood-calls", [self] { self->run(); }).detach();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      --threads_;
      throw;
    }
  }
  void run() {
    awaited_at_end = true;
    std::unique_lock lock(mutex_);
    while (take_one(lock)) {
    }
    --threads_;
  }
  // Waits for a job and does it; false: this thread is not needed.
  bool take_one(std::unique_lock<std::mutex>& lock) {
    const auto called = [&] { return ending_ || !jobs_.empty(); };
    ++idle_;
    while (!called()) {
      if (threads_ == 1)
        wake_.wait(lock);
      else if (wake_.wait_for(lock, std::chrono::seconds(1)) == std::cv_status::timeout &&
               threads_ > 1)
        break;
    }
    --idle_;
    if (jobs_.empty()) return false;
    do_one(lock);
    return true;
  }
  void do_one(std::unique_lock<std::mutex>& lock) {
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    if (--busy_ == 0 && jobs_.empty()) quiet_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_, quiet_;
  std::deque<std::function<void()>> jobs_;
  size_t threads_ = 0, idle_ = 0, busy_ = 0;
  bool ending_ = false;
};

class Work final : public c10d::Work {
 public:
  using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

  // `title` and `inputs` are for the profiler. `note` is appended to errors.
  Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       Tensors tensors, std::shared_ptr<CallbackThreads> threads,
       std::shared_ptr<const std::string> note, std::shared_ptr<UnseenError> unseen)
      : c10d::Work(rank, type, at::hasCallbacks() ? title : nullptr,
                   at::hasCallbacks() ? std::make_optional(inputs) : std::nullopt),
        tensors_(std::move(tensors)),
        threads_(std::move(threads)),
        note_(std::move(note)),
        unseen_(std::move(unseen)) {}

  // Makes the outputs from what has arrived; without the GIL, before wait() returns.
  void afterwards(std::function<void()> function) { afterwards_ = std::move(function); }

  // What tells the flight recorder of the end.
  void recorded(FlightRecorder::Ticket ticket) { ticket_ = ticket; }

  // Once, with the operations that this call consists of.
  void start(std::vector<OperationPtr> operations) {
    {
      const std::lock_guard lock(state_mutex_);
      operations_ = operations;
    }
    pending_ = operations.size();
    const auto done = [](const OperationPtr& operation) { return operation->done(); };
    // What has ended already is finished in this very thread, below.
    if (!std::all_of(operations.begin(), operations.end(), done)) call_state_.emplace();
    for (const OperationPtr& operation : operations) {
      auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
      operation->on_done(
          [self = std::move(self)](const Error* error) mutable { self->ended(error, self); });
    }
  }

  bool wait(std::chrono::milliseconds timeout) override {
    const Deadline deadline = timeout.count() > 0 ? Deadline::after(timeout) : Deadline::never();
    for (const OperationPtr& operation : operations()) {
      using std::chrono::milliseconds;
      const auto left =
          timeout.count() > 0
              ? std::max(milliseconds(1), std::chrono::floor<milliseconds>(deadline.left()))
              : timeout;
      if (Status status = operation->wait(std::max(left, kNoTimeout)); !status)
        fail(status.error());
    }
    complete();
    complete_future();
    release();
    const auto error = exception();
    if (error) unseen_->seen();
    rethrow_interrupt();
    if (error) std::rethrow_exception(error);
    return true;
  }

  // A Future that was asked for is complete when this is true.
  bool isCompleted() override {
    const FuturePtr future = this->future();
    return c10d::Work::isCompleted() && (!future || future->completed());
  }

  std::vector<at::Tensor> result() override {
    TORCH_CHECK(
        isCompleted(),
        "Work needs to be completed before calling result(). Should call wait() before result().");
    return tensors_.outputs();
  }

  FuturePtr getFuture() override {
    {
      std::lock_guard lock(state_mutex_);
      if (!future_)
        future_ =
            c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    }
    if (c10d::Work::isCompleted()) complete_future();
    return future();
  }

  int sourceRank() const override {
    TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE,
                "sourceRank() may only be called on work objects that correspond to a recv or "
                "recv-from-any call.");
    const std::lock_guard lock(state_mutex_);
    return operations_.empty() ? source_ : operations_[0]->source();
  }

  uint64_t getSequencenumber() const override {
    const std::lock_guard lock(state_mutex_);
    return static_cast<uint64_t>(operations_.empty() ? sequence_ : operations_[0]->sequence());
  }

 private:
  using CallState = std::optional<at::ThreadLocalState>;
  class StateOfCall final {
   public:
    explicit StateOfCall(const CallState& state) {
      if (state) guard_.emplace(*state);
    }

   private:
    std::optional<at::ThreadLocalStateGuard> guard_;
  };

  FuturePtr future() {
    std::lock_guard lock(state_mutex_);
    return future_;
  }

  std::vector<OperationPtr> operations() const {
    const std::lock_guard lock(state_mutex_);
    return operations_;
  }

  void fail(const Error& error) {
    std::lock_guard lock(state_mutex_);
    if (!error_) error_ = as_exception(error, *note_);
  }

  // One operation has ended; in an internal thread of the communicator. `self` is that operation's
  // reference to us.
  void ended(const Error* error, c10::intrusive_ptr<Work>& self) {
    if (error) fail(*error);
    if (--pending_ > 0) return;
    complete();
    if (!future() && self.use_count() > 1)
      return;  // the caller's wait() or its last reference does the rest
    threads_->post([work = std::move(self)] {
      work->complete_future();
      work->release();
    });
  }

  // Data. The second to come waits for the first.
  void complete() {
    std::call_once(completed_, [this] {
      try {
        const StateOfCall state(afterwards_ ? call_state_ : std::nullopt);
        if (afterwards_ && !error_) afterwards_();
      } catch (...) {
        error_ = std::current_exception();
      }
      afterwards_ = nullptr;
      forget_operations();
      const bool any_source = opType_ == c10d::OpType::RECVANYSOURCE;
      FlightRecorder::instance().end(ticket_, !error_, any_source ? source_ : -1);
      if (error_) FlightRecorder::instance().dump_failure(ticket_.rank_in_job);
      finish(error_);
    });
  }

  // Precondition: finished. On return the Future, if there is one, is complete; its callbacks may
  // still be running.
  void complete_future() {
    FuturePtr future;
    bool mine = false;
    {
      std::lock_guard lock(state_mutex_);
      future = future_;
      mine = future && !std::exchange(future_claimed_, true);
    }
    if (!future) return;
    if (!mine) return future->wait();
    const StateOfCall state(call_state_);
    if (auto error = exception()) {
      unseen_->seen();
      future->setError(error);
    } else {
      future->markCompleted(c10::IValue(tensors_.outputs()));
    }
  }

  void release() {
    Tensors rest;
    std::lock_guard lock(state_mutex_);
    rest = tensors_.take_rest();
  }

  // An operation keeps its communicator alive, and a Work may be kept for ever.
  void forget_operations() {
    std::vector<OperationPtr> operations;
    std::lock_guard lock(state_mutex_);
    if (operations_.empty()) return;
    source_ = operations_[0]->source();
    sequence_ = operations_[0]->sequence();
    operations.swap(operations_);
  }

  Tensors tensors_;
  const std::shared_ptr<CallbackThreads> threads_;
  const std::shared_ptr<const std::string> note_;
  const std::shared_ptr<UnseenError> unseen_;  // of the group
  FlightRecorder::Ticket ticket_;
  std::function<void()> afterwards_;
  CallState call_state_;  // none: it ended inside the call
  std::atomic<size_t> pending_{0};
  std::once_flag completed_;

  mutable std::mutex state_mutex_;        // all below
  std::vector<OperationPtr> operations_;  // none once finished
  int source_ = -1;                       // of the first operation
  int64_t sequence_ = 0;
  std::exception_ptr error_;  // not changed once finished
  FuturePtr future_;
  bool future_claimed_ = false;
};

}  // namespace ringwood

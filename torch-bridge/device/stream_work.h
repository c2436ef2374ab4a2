// The handle torch gets for a call on a device: it orders streams, and the host goes on.
//
// wait() makes the caller's current stream wait for the end of the call. It waits on the host, too,
// where a timeout is given, for a barrier, and with RINGWOOD_BLOCKING_WAIT=1. A stream that has
// been ordered goes on whatever becomes of the call: after an error it finds in the outputs what
// was there before, or a part of the result. The error is raised by whatever is first: a wait that
// finds it, the next call, or the end of the group.
//
// The Future is complete at once, and remembers events: what it calls runs on streams that wait.
//
// Tensors: the allocator knows on which streams they are used, so inputs are not held where there
// are outputs. Those are held as long as this is, for result() and the Future. Thread safe.
//
// Events are used with their device current: torch would make a context of the one that is, for a
// thread that has none.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "torch-bridge/device/call_outcome.h"
#include "torch-bridge/errors.h"
#include "torch-bridge/gil.h"
#include "torch-bridge/interrupt.h"
#include "transports/base/clock.h"

namespace ringwood {

class StreamWork final : public c10d::Work {
 public:
  using List = std::vector<at::Tensor>;
  using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

  // `title` and `inputs` are for the profiler, which sees the call, not what the device does.
  // `blocks`: wait() is of the host.
  StreamWork(int rank, c10d::OpType type, const char* title, const List& inputs, List outputs,
             c10::Device device, std::shared_ptr<CallOutcome> outcome,
             std::shared_ptr<const std::string> note, bool blocks)
      : c10d::Work(rank, type, at::hasCallbacks() ? title : nullptr,
                   at::hasCallbacks() ? std::make_optional(inputs) : std::nullopt),
        device_(device),
        blocks_(blocks),
        outcome_(std::move(outcome)),
        note_(std::move(note)),
        outputs_(std::move(outputs)),
        shown_(outputs_.empty() ? inputs : outputs_) {
    end_.emplace(device.type());
  }
  ~StreamWork() override {
    const c10::OptionalDeviceGuard here(device_);
    end_.reset();
  }

  // Once, when `on`, of the current device, has been given all of the call.
  void queued(const c10::Stream& on) {
    end_->record(on);
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  }
  // Precondition: queued.
  void raise_if_failed() {
    if (outcome_->about_to_fail()) wait_for_operations(Deadline::never());
    const std::optional<Error> error = outcome_->error();
    if (!error) return;
    finish_once();
    raise(*error, *note_);
  }

  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout.count() > 0 || blocks_) wait_on_host(timeout);
    raise_if_failed();
    blockCurrentStream();
    return true;
  }
  void synchronize() override { blockCurrentStream(); }
  void blockCurrentStream() override {
    const c10::DeviceGuard here(device_);
    end_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }

  // Where the streams have passed the end, the operations have ended, or are just about to; but for
  // a send, of which this tells that its tensor may be changed, as wait() does.
  bool isCompleted() override {
    if (c10d::Work::isCompleted()) return true;
    if (!outcome_->error()) {
      if (!passed()) return false;
      if (!is_send()) wait_for_operations(Deadline::never());
    }
    finish_once();
    return true;
  }

  List result() override { return outputs_; }
  uint64_t getSequencenumber() const override { return outcome_->sequence(); }
  int sourceRank() const override {
    TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE,
                "sourceRank() may only be called on work objects that correspond to a recv or "
                "recv-from-any call.");
    wait_for_operations(Deadline::never());  // only the host can tell
    if (const auto error = outcome_->error()) raise(*error, *note_);
    return outcome_->source();
  }

  FuturePtr getFuture() override {
    const std::lock_guard lock(state_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device_});
    if (const auto error = outcome_->error()) {
      outcome_->seen();
      future_->setError(as_exception(*error, *note_));
      return future_;
    }
    // Its events are those of the stream that is current here, on devices that its value is on.
    const c10::impl::VirtualGuardImpl guard(device_.type());
    const c10::Stream after = guard.getStreamFromGlobalPool(device_, false);
    const c10::StreamGuard current(after);
    end_->block(after);
    List value = shown_;
    if (value.empty()) value.push_back(at::empty({1}, at::TensorOptions(device_).dtype(at::kByte)));
    future_->markCompleted(c10::IValue(std::move(value)));
    return future_;
  }

 private:
  static constexpr auto kSignals = std::chrono::milliseconds(100);  // between two looks for them

  bool is_send() const { return opType_ == c10d::OpType::SEND; }
  bool passed() const {
    const c10::DeviceGuard here(device_);
    return end_->query();
  }
  void wait_on_host(std::chrono::milliseconds timeout) {
    const Deadline deadline = timeout.count() > 0 ? Deadline::after(timeout) : Deadline::never();
    if (!is_send()) wait_for_operations(deadline);
    // And for what the stream does behind the operations.
    for (Deadline signals = Deadline::after(kSignals); !outcome_->error() && !passed();) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (deadline.passed())
        outcome_->fail(Error(ErrorCode::timeout, "the stream has not come to the call's end"));
      if (!signals.passed()) continue;
      if (const std::string why = run_signal_handlers(); !why.empty())
        outcome_->fail(Error(ErrorCode::aborted, why));
      signals = Deadline::after(kSignals);
    }
    if (outcome_->error()) outcome_->seen();  // or an interrupt is
    rethrow_interrupt();
  }
  // With and without Python's lock.
  void wait_for_operations(Deadline deadline) const {
    using std::chrono::milliseconds;
    {
      const WithoutGil released;
      for (const OperationPtr& operation : outcome_->operations()) {
        const auto left =
            std::max(milliseconds(1), std::chrono::floor<milliseconds>(deadline.left()));
        if (Status ended = operation->wait(left); !ended) outcome_->fail(ended.error());
      }
    }
    if (outcome_->error()) outcome_->seen();
    rethrow_interrupt();
  }
  void finish_once() {
    const std::lock_guard lock(state_);
    if (c10d::Work::isCompleted()) return;
    const auto error = outcome_->error();
    if (error) outcome_->seen();
    finish(error ? as_exception(*error, *note_) : nullptr);
  }

  const c10::Device device_;
  const bool blocks_;
  const std::shared_ptr<CallOutcome> outcome_;
  const std::shared_ptr<const std::string> note_;
  std::optional<c10::Event> end_;  // recorded once, in queued()
  const List outputs_;
  const List shown_;  // by the Future, which looks for its devices there
  std::mutex state_;
  FuturePtr future_;
};

}  // namespace ringwood

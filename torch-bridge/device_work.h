// The handle torch gets for a call on a device: it orders streams, and does not wait.
//
// wait() makes the caller's current stream wait for the end of the call and returns at once. It
// waits on the host where a timeout is given, or where the environment asks for it as of NCCL
// (TORCH_NCCL_BLOCKING_WAIT=1). An error of the group is raised by what sees it first: the next
// call, wait(), or a wait of the host. A stream that has been ordered goes on without it, as with
// NCCL, and finds in the outputs what was there before, or a part of the result. The Future is
// complete at once and remembers events, so what it calls runs on streams that wait.
//
// Inputs are held until wait(), or until the end is seen; the allocator knows on which stream they
// are used. Outputs are held as long as this is, for result() and the Future. Thread safe.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "torch-bridge/device_wait.h"
#include "torch-bridge/errors.h"

namespace ringwood {

class DeviceWork final : public c10d::Work {
 public:
  using List = std::vector<at::Tensor>;
  using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

  // `title` and `inputs` are for the profiler, which sees the call, not what the device does.
  DeviceWork(int rank, c10d::OpType type, const char* title, const List& inputs, List outputs,
             std::shared_ptr<DeviceUse> use, std::shared_ptr<const std::string> note,
             uint64_t number)
      : c10d::Work(rank, type, at::hasCallbacks() ? title : nullptr,
                   at::hasCallbacks() ? std::make_optional(inputs) : std::nullopt),
        title_(title),
        use_(std::move(use)),
        note_(std::move(note)),
        number_(number),
        end_(use_->device().type()),
        inputs_(inputs),
        outputs_(std::move(outputs)) {}

  // Once, when `on` has been given all of the call.
  void queued(const c10::Stream& on) {
    end_.record(on);
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  }

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      if (timeout.count() > 0 || blocks()) {
        const auto most = timeout.count() > 0 ? timeout : use_->limit();
        wait_on_host(end_, *use_, name(), Deadline::after(most));
      } else if (Status status = use_->status(); !status) {
        throw Error(status.error());
      }
    } catch (const Error& error) {
      rethrow_interrupt();
      fail(error);
      raise(error, *note_);
    }
    order(use_->device());
    drop_inputs();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { order(use_->device()); }

  bool isCompleted() override {
    if (c10d::Work::isCompleted()) return true;
    if (!end_.query()) return false;
    if (Status status = use_->status(); !status)
      fail(status.error());
    else
      finish();
    drop_inputs();
    return true;
  }

  List result() override { return outputs_; }
  uint64_t getSequencenumber() const override { return number_; }

  FuturePtr getFuture() override {
    const std::lock_guard lock(state_);
    if (future_) return future_;
    const c10::Device device = use_->device();
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device});
    // Its events are those of the stream that is current here.
    const c10::impl::VirtualGuardImpl guard(device.type());
    const c10::Stream after = guard.getStreamFromGlobalPool(device, false);
    end_.block(after);
    const c10::StreamGuard current(after);
    if (Status status = use_->status(); !status)
      future_->setError(as_exception(status.error(), *note_));
    else
      future_->markCompleted(c10::IValue(outputs_));
    return future_;
  }

 private:
  static bool blocks() {
    static const bool asked = [] {
      const char* const value = std::getenv("TORCH_NCCL_BLOCKING_WAIT");
      return value && std::string_view(value) == "1";
    }();
    return asked;
  }
  // "all_reduce" of "ringwood:all_reduce".
  std::string name() const {
    return std::string(title_).substr(std::string_view("ringwood:").size());
  }
  void order(c10::Device device) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    end_.block(guard.getStream(device));
  }
  void fail(const Error& error) {
    if (!c10d::Work::isCompleted()) finish(as_exception(error, *note_));
  }
  // A tensor may be a Python object that dies here: after the lock.
  void drop_inputs() {
    List dropped;
    const std::lock_guard lock(state_);
    dropped.swap(inputs_);
  }

  const char* const title_;
  const std::shared_ptr<DeviceUse> use_;
  const std::shared_ptr<const std::string> note_;
  const uint64_t number_;
  c10::Event end_;  // recorded once, in queued()
  std::mutex state_;
  List inputs_;
  const List outputs_;
  FuturePtr future_;
};

}  // namespace ringwood

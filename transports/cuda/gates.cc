#include "transports/cuda/gates.h"

#include <thread>

#include <fmt/format.h>

#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

constexpr size_t kGatesOfABlock = 1024;

}  // namespace

Gates::Gates(const Device& device, Arena& arena, PinnedBlocks& pinned)
    : device_(device), arena_(arena), pinned_(pinned) {}

Status Gates::check(CUresult code, const char* call) const {
  return cuda::check(device_.driver(), code, call, device_.ordinal());
}

// The block is made without the lock, because the driver of the engine needs it to end operations.
Status Gates::grow() try {
  auto words = std::make_unique<PinnedWords>(device_, arena_, pinned_, kGatesOfABlock);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < words->count(); ++i) {
    auto gate = std::make_unique<Gate>();
    gate->end = words->at(i);
    free_.push_back(static_cast<Operation>(gates_.size()));
    gates_.push_back(std::move(gate));
  }
  words_.push_back(std::move(words));
  return {};
} catch (...) {
  return caught_error();
}

Status Gates::refuse_capture(CUstream stream) const {
  CUstreamCaptureStatus status{};
  const CUresult code = device_.driver().stream.is_capturing(stream, &status);
  if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_CONTEXT)
    return Error(
        ErrorCode::invalid_argument,
        fmt::format("the stream is none of device {}, or was destroyed", device_.ordinal()));
  if (Status s = check(code, "cuStreamIsCapturing"); !s) return s;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return {};
  return Error(ErrorCode::unsupported,
               "the stream is being captured into a CUDA graph, which cannot have this call: the "
               "host takes part in it; make the call outside of the capture");
}

Result<Gates::Operation> Gates::take() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const Operation operation = free_.back();
        free_.pop_back();
        return operation;
      }
    }
    if (Status s = grow(); !s) return std::move(s.error());
  }
}

Status Gates::put_into(CUstream user, Gate& gate) const try {
  if (!gate.passed) {
    gate.begin = std::make_unique<Event>(device_);
    gate.passed = std::make_unique<Event>(device_);
  }
  const Driver& driver = device_.driver();
  const auto record = [&](const Event& event) {
    return check(driver.event.record(event.get(), user), "cuEventRecord");
  };
  if (Status s = record(*gate.begin); !s) return s;
  if (Status s =
          check(driver.stream.wait_value(user, gate.end.device, gate.value + 1, kWaitAtLeast),
                "cuStreamWaitValue32");
      !s)
    return s;
  Status marked = record(*gate.passed);
  if (!marked) gate.end.write(++gate.value);  // the stream must not wait
  return marked;
} catch (...) {
  return caught_error();
}

Result<Gates::Operation> Gates::enter(CUstream user) {
  const CurrentContext current(device_, std::nothrow);
  if (!current) return std::move(current.status().error());
  if (Status s = refuse_capture(user); !s) return std::move(s.error());
  auto operation = take();
  if (!operation) return operation;
  Gate* gate = nullptr;
  {
    const std::lock_guard lock(mutex_);
    gate = gates_[*operation].get();
  }
  if (Status s = put_into(user, *gate); !s) {
    give_back(*operation);
    return std::move(s.error());
  }
  const std::lock_guard lock(mutex_);
  ++gate->value;
  return operation;
}

CUevent Gates::begin_of(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return gates_[operation]->begin->get();
}

Gates::End Gates::end_of(Operation operation) const {
  const std::lock_guard lock(mutex_);
  const Gate& gate = *gates_[operation];
  return {gate.end.device, gate.value};
}

void Gates::open(Operation operation) noexcept {
  const std::lock_guard lock(mutex_);
  const Gate& gate = *gates_[operation];
  gate.end.write(gate.value);
  free_.push_back(operation);
}

void Gates::give_back(Operation operation) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(operation);
}

bool Gates::passed_by(Deadline deadline) const noexcept try {
  const std::lock_guard lock(mutex_);
  for (const auto& gate : gates_)
    while (gate->passed && !gate->passed->done()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  return true;
} catch (...) {
  return false;
}

void Gates::keep_for_ever() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& words : words_) words->keep_for_ever();
}

}  // namespace ringwood::cuda

#include "transports/cuda/gates.h"

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
  if (Status s =
          check(device_.driver().stream.is_capturing(stream, &status), "cuStreamIsCapturing");
      !s)
    return s;
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
  if (!gate.begin) gate.begin = std::make_unique<Event>(device_);
  const Driver& driver = device_.driver();
  if (Status s = check(driver.event.record(gate.begin->get(), user), "cuEventRecord"); !s) return s;
  return check(driver.stream.wait_value(user, gate.end.device, gate.value + 1, kWaitAtLeast),
               "cuStreamWaitValue32");
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

void Gates::keep_for_ever() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& words : words_) words->keep_for_ever();
}

}  // namespace ringwood::cuda

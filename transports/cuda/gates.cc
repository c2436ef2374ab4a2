#include "transports/cuda/gates.h"

#include <thread>

#include <fmt/format.h>

#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

constexpr size_t kGatesOfABlock = 1024;
constexpr size_t kWords = 3;  // of a gate

}  // namespace

Gates::Gates(const Device& device, Arena& arena, PinnedBlocks& pinned, const Doorbell& doorbell)
    : device_(device), arena_(arena), pinned_(pinned), doorbell_(doorbell) {}

Status Gates::check(CUresult code, const char* call) const {
  return cuda::check(device_.driver(), code, call, device_.ordinal());
}

// The block is made without the lock, because the driver of the engine needs it to end operations.
Status Gates::grow() try {
  auto words = std::make_unique<PinnedWords>(device_, arena_, pinned_, kWords * kGatesOfABlock);
  const std::lock_guard lock(mutex_);
  words_.reserve(words_.size() + 1);
  for (size_t i = 0; i < words->count(); i += kWords) {
    auto gate = std::make_unique<Gate>();
    gate->come = words->at(i);
    gate->end = words->at(i + 1);
    gate->passed = words->at(i + 2);
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
      std::erase_if(ended_, [this](Operation ended) {
        const bool free = gates_[ended]->is_free();
        if (free) free_.push_back(ended);
        return free;
      });
      if (!free_.empty()) {
        const Operation operation = free_.back();
        free_.pop_back();
        return operation;
      }
    }
    if (Status s = grow(); !s) return std::move(s.error());
  }
}

Gates::Gate& Gates::gate(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return *gates_[operation];
}

Status Gates::wait_for_end(CUstream user, Gate& gate) const {
  const StreamCalls& stream = device_.driver().stream;
  if (Status s = check(stream.wait_value(user, gate.end.device, gate.value, kWaitAtLeast),
                       "cuStreamWaitValue32");
      !s) {
    gate.passed.write(gate.value);  // nothing waits
    return s;
  }
  Status marked = check(stream.write_value(user, gate.passed.device, gate.value, kWriteInOrder),
                        "cuStreamWriteValue32");
  if (!marked) go_on(user, gate);
  return marked;
}

// The stream must not wait. The gate is not used again.
void Gates::go_on(CUstream user, Gate& gate) const noexcept try {
  gate.end.write(gate.value);
  gate.lost = std::make_unique<Event>(device_);
  gate.lost->record(user);
} catch (...) {
  gate.lost = nullptr;
}

Result<Gates::Operation> Gates::enter(CUstream user) {
  const CurrentContext current(device_, std::nothrow);
  if (!current) return std::move(current.status().error());
  if (Status s = refuse_capture(user); !s) return std::move(s.error());
  auto operation = take();
  if (!operation) return operation;
  Gate& taken = gate(*operation);
  Status come = check(
      device_.driver().stream.write_value(user, taken.come.device, taken.value + 1, kWriteInOrder),
      "cuStreamWriteValue32");
  Status rings = come ? doorbell_.ring_behind(device_, user) : Status();
  const std::lock_guard lock(mutex_);
  if (!come) {
    free_.push_back(*operation);
    return std::move(come.error());
  }
  ++taken.value;
  if (rings) return operation;
  taken.passed.write(taken.value);  // nothing waits, but the word is still to come
  ended_.push_back(*operation);
  return std::move(rings.error());
}

Status Gates::hold_back(CUstream user, Operation operation) {
  Gate& entered = gate(operation);
  const CurrentContext current(device_, std::nothrow);
  if (current) return wait_for_end(user, entered);
  entered.passed.write(entered.value);
  return current.status();
}

bool Gates::has_come(Operation operation) const noexcept {
  const std::lock_guard lock(mutex_);
  return gates_[operation]->has_come();
}

Gates::End Gates::end_of(Operation operation) const noexcept {
  const Gate& of = gate(operation);
  return {of.end.device, of.value};
}

void Gates::open(Operation operation) noexcept {
  const std::lock_guard lock(mutex_);
  gates_[operation]->end.write(gates_[operation]->value);
  ended_.push_back(operation);
}

void Gates::give_back(Operation operation) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.push_back(operation);
}

bool Gates::passed_by(Deadline deadline) const noexcept try {
  const std::lock_guard lock(mutex_);
  for (const auto& gate : gates_)
    while (gate->lost ? !gate->lost->done() : !gate->is_free()) {
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

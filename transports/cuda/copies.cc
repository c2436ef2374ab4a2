#include "transports/cuda/copies.h"

#include <unistd.h>

#include <thread>

#include "transports/base/clock.h"
#include "transports/base/log.h"
#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

constexpr size_t kWordsOfABlock = 1024;
constexpr auto kLongestEnd = std::chrono::seconds(1);

bool has_come(uint32_t now, uint32_t wanted) { return static_cast<int32_t>(now - wanted) >= 0; }

// Runs in a thread of the driver, in which CUDA must not be called.
void ring(void* doorbell) {
  const int fd = *static_cast<const int*>(doorbell);
  const uint64_t once = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &once, sizeof once);
}

}  // namespace

void Copies::Word::write(uint32_t value) const noexcept {
  std::atomic_ref<uint32_t>(*host).store(value, std::memory_order_release);
}

uint32_t Copies::Word::read() const noexcept {
  return std::atomic_ref<uint32_t>(*host).load(std::memory_order_acquire);
}

Copies::Copies(const Device& device, Arena& arena, PinnedBlocks& pinned, int doorbell)
    : device_(device),
      arena_(arena),
      pinned_(pinned),
      doorbell_(std::make_unique<int>(doorbell)),
      out_(device),
      in_(device) {
  if (Status s = grow(); !s) {
    for (void* block : blocks_) arena_.release(block);
    throw std::move(s.error());
  }
  for (Direction* direction : {&out_, &in_}) {
    direction->done = places_[free_.back()]->end;
    free_.pop_back();
  }
}

Copies::~Copies() {
  if (!device_.driver().usable()) return;  // in a fork: nothing of it is this process's
  const Deadline deadline = Deadline::after(kLongestEnd);
  const auto idle = [this] {
    try {
      return out_.stream.idle() && in_.stream.idle();
    } catch (const Error&) {
      return false;
    }
  };
  while (!idle() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (idle()) {
    for (void* block : blocks_) arena_.release(block);
    return;
  }
  log(LogLevel::warn, "cuda", "copies of a device have not ended: their memory is not used again");
  for (void* block : blocks_) arena_.quarantine(block);
  [[maybe_unused]] const int* const left_to_the_streams = doorbell_.release();
}

Status Copies::check(CUresult code, const char* call) const {
  return cuda::check(device_.driver(), code, call, device_.ordinal());
}

Status Copies::grow() {
  auto* const words = static_cast<uint32_t*>(arena_.allocate(kWordsOfABlock * sizeof(uint32_t)));
  blocks_.push_back(words);
  auto seen = pinned_.pin(words, kWordsOfABlock * sizeof(uint32_t));
  if (!seen) return std::move(seen.error());
  for (size_t i = 0; i < kWordsOfABlock; ++i) {
    auto place = std::make_unique<Place>();
    place->end = {words + i, *seen + i * sizeof(uint32_t)};
    place->end.write(0);
    free_.push_back(static_cast<Operation>(places_.size()));
    places_.push_back(std::move(place));
  }
  return {};
}

void Copies::give_back_ended() {
  size_t done = 0;
  while (done < ending_.size() && in_done(ending_[done].second))
    free_.push_back(ending_[done++].first);
  ending_.erase(ending_.begin(), ending_.begin() + static_cast<long>(done));
}

Status Copies::refuse_capture(CUstream stream) const {
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

Status Copies::pin(const void* data, size_t bytes) {
  auto seen = pinned_.pin(data, bytes);
  return seen ? Status() : std::move(seen.error());
}

Result<Copies::Operation> Copies::enter(void* stream) {
  const auto user = static_cast<CUstream>(stream);
  const CurrentContext current(device_, std::nothrow);
  if (!current) return Error(ErrorCode::internal, "no context of the device can be made current");
  if (Status s = refuse_capture(user); !s) return std::move(s.error());
  const std::lock_guard lock(mutex_);
  give_back_ended();
  if (free_.empty())
    if (Status s = grow(); !s) return std::move(s.error());
  const Operation operation = free_.back();
  Place& place = *places_[operation];
  if (!place.begin) try {
      place.begin = std::make_unique<Event>(device_);
    } catch (...) {
      return caught_error();
    }
  const StreamCalls& calls = device_.driver().stream;
  if (Status s = check(device_.driver().event.record(place.begin->get(), user), "cuEventRecord");
      !s)
    return std::move(s.error());
  if (Status s = check(calls.wait_value(user, place.end.device, place.value + 1, kWaitAtLeast),
                       "cuStreamWaitValue32");
      !s)
    return std::move(s.error());
  ++place.value;
  free_.pop_back();
  return operation;
}

Status Copies::begin(Operation operation) {
  CUevent event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    event = places_[operation]->begin->get();
  }
  const CurrentContext current(device_, std::nothrow);
  for (const Direction* direction : {&out_, &in_})
    if (Status s = check(device_.driver().stream.wait_event(direction->stream.get(), event, 0),
                         "cuStreamWaitEvent");
        !s)
      return s;
  return {};
}

Result<Copies::Ticket> Copies::count(Direction& direction) {
  if (Status s =
          check(device_.driver().stream.write_value(direction.stream.get(), direction.done.device,
                                                    direction.begun + 1, kWriteInOrder),
                "cuStreamWriteValue32");
      !s)
    return std::move(s.error());
  return ++direction.begun;
}

Result<Copies::Ticket> Copies::copy_out(std::byte* to, const void* from, size_t bytes) {
  const CurrentContext current(device_, std::nothrow);
  if (Status s = check(device_.driver().memory.copy_to_host(to, reinterpret_cast<CUdeviceptr>(from),
                                                            bytes, out_.stream.get()),
                       "cuMemcpyDtoHAsync");
      !s)
    return std::move(s.error());
  return count(out_);
}

Result<Copies::Ticket> Copies::copy_in(void* to, const std::byte* from, size_t bytes) {
  const CurrentContext current(device_, std::nothrow);
  if (Status s = check(device_.driver().memory.copy_to_device(reinterpret_cast<CUdeviceptr>(to),
                                                              from, bytes, in_.stream.get()),
                       "cuMemcpyHtoDAsync");
      !s)
    return std::move(s.error());
  return count(in_);
}

bool Copies::out_done(Ticket ticket) const noexcept { return has_come(out_.done.read(), ticket); }
bool Copies::in_done(Ticket ticket) const noexcept { return has_come(in_.done.read(), ticket); }

Status Copies::end(Operation operation) {
  const CurrentContext current(device_, std::nothrow);
  const std::lock_guard lock(mutex_);
  const Place& place = *places_[operation];
  if (Status s = check(device_.driver().stream.write_value(in_.stream.get(), place.end.device,
                                                           place.value, kWriteInOrder),
                       "cuStreamWriteValue32");
      !s) {
    // The stream goes on all the same; the caller has the error.
    place.end.write(place.value);
    free_.push_back(operation);
    return s;
  }
  auto ticket = count(in_);
  if (!ticket) {
    // It ends, but nobody will see when: the place is not used again.
    return std::move(ticket.error());
  }
  ending_.emplace_back(operation, *ticket);
  return {};
}

void Copies::abandon(Operation operation) noexcept {
  const std::lock_guard lock(mutex_);
  const Place& place = *places_[operation];
  place.end.write(place.value);
  free_.push_back(operation);
}

Status Copies::ring_when_done() {
  if (*doorbell_ < 0) return {};
  const CurrentContext current(device_, std::nothrow);
  for (const Direction* direction : {&out_, &in_})
    if (Status s = check(
            device_.driver().stream.host_function(direction->stream.get(), ring, doorbell_.get()),
            "cuLaunchHostFunc");
        !s)
      return s;
  return {};
}

}  // namespace ringwood::cuda

#include "transports/cuda/group_devices.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/log.h"
#include "transports/cuda/check.h"
#include "transports/cuda/copies.h"
#include "transports/cuda/pointer_place.h"
#include "transports/cuda/process_devices.h"

namespace ringwood {
namespace {

using namespace cuda;

// Memory grows by powers of two, and beyond the second by the third.
constexpr size_t kSmallestScratch = size_t{256} << 10, kSmallestStaging = size_t{4} << 10;
constexpr size_t kLargestDoubled = size_t{256} << 20, kLargeStep = size_t{64} << 20;
constexpr auto kLongestEnd = std::chrono::seconds(1);

size_t grown(size_t bytes) {
  return bytes <= kLargestDoubled ? std::bit_ceil(bytes)
                                  : (bytes + kLargeStep - 1) / kLargeStep * kLargeStep;
}

// A device with what this group has on it.
struct DeviceInUse {
  DeviceInUse(const Device& its_device, ProcessDevices& process, const Doorbell& doorbell)
      : device(its_device),
        gates(its_device, process.arena(), process.pinned(), doorbell),
        copies(its_device, process.arena(), process.pinned(), gates, doorbell) {}
  bool idle_by(Deadline deadline) const {
    return copies.idle_by(deadline) && gates.passed_by(deadline);
  }
  const Device& device;
  Gates gates;
  Copies copies;
};

class LiveDevices final : public GroupDevices {
 public:
  LiveDevices(CudaOptions options, int tracks, int doorbell)
      : options_(std::move(options)),
        doorbell_(std::make_unique<Doorbell>(doorbell)),
        scratch_(static_cast<size_t>(tracks)) {}
  ~LiveDevices() override;

  Status ready(int device, size_t scratch_bytes) override;
  Result<std::byte*> staging(size_t bytes) override;
  void give_back(std::byte* staging) noexcept override;
  Status check(const char* what, int device, void* stream, std::span<void* const> buffers) override;
  Result<DeviceCopies::Operation> enter(int device, void* stream) override {
    return in_use(device).gates.enter(static_cast<CUstream>(stream));
  }
  Status hold_back(int device, void* stream, DeviceCopies::Operation operation) override {
    return in_use(device).gates.hold_back(static_cast<CUstream>(stream), operation);
  }
  void abandon(int device, DeviceCopies::Operation operation) noexcept override {
    in_use(device).gates.open(operation);
  }
  DeviceCopies& copies(int device) override { return in_use(device).copies; }
  std::byte* scratch(int track) override {
    const std::lock_guard lock(mutex_);
    return scratch_[static_cast<size_t>(track)].back();
  }

 private:
  Status use(int device);
  Result<std::byte*> pinned_block(size_t bytes);
  Status grow_scratch(size_t bytes);
  DeviceInUse& in_use(int device) {
    const std::lock_guard lock(mutex_);
    return *devices_.at(device);
  }
  bool has(int device) {
    const std::lock_guard lock(mutex_);
    return devices_.contains(device);
  }

  const CudaOptions options_;
  std::unique_ptr<Doorbell> doorbell_;
  std::shared_ptr<ProcessDevices> process_;  // once used; set before anything below
  std::mutex mutex_;                         // of the tables; never held in a call of CUDA
  std::map<int, std::unique_ptr<DeviceInUse>> devices_;
  std::vector<std::vector<std::byte*>> scratch_;  // by track; the last one is the largest
  size_t scratch_bytes_ = 0;                      // of the last; of the thread that calls ready()
  // Of messages: by their sizes those that are free, and of all blocks the size.
  std::map<size_t, std::vector<std::byte*>> free_staging_;
  std::map<std::byte*, size_t> staging_;
};

// What a stream may still use stays, pinned, for ever.
LiveDevices::~LiveDevices() {
  bool idle = true;
  const Deadline deadline = Deadline::after(kLongestEnd);
  for (const auto& [ordinal, used] : devices_) {
    if (!used->device.driver().usable()) {  // a fork, where nothing of it is this process's
      devices_.clear();
      return;
    }
    idle = used->idle_by(deadline) && idle;
  }
  if (!idle) {
    log(LogLevel::warn, "cuda",
        "a stream has not passed the calls of a group that has ended: their memory stays pinned");
    doorbell_->keep_for_ever();
    [[maybe_unused]] auto* const devices = new auto(std::move(devices_));
    [[maybe_unused]] auto* const process = new auto(std::move(process_));
    return;
  }
  devices_.clear();
  for (const auto& blocks : scratch_)
    for (std::byte* block : blocks) process_->arena().release(block);
  for (const auto& [block, bytes] : staging_) process_->arena().release(block);
}

Status LiveDevices::use(int device) try {
  if (!options_.enabled)
    return Error(ErrorCode::unsupported,
                 "RINGWOOD_CUDA=0 switches memory of devices off: unset it, or copy the buffers to "
                 "the host");
  if (!process_) {
    auto process = ProcessDevices::of_process(options_);
    if (!process) return std::move(process.error());
    process_ = std::move(*process);
  }
  auto known = process_->device(device);
  if (!known) return std::move(known.error());
  auto used = std::make_unique<DeviceInUse>(**known, *process_, *doorbell_);
  const std::lock_guard lock(mutex_);
  devices_.emplace(device, std::move(used));
  return {};
} catch (...) {
  return caught_error();
}

Status LiveDevices::ready(int device, size_t scratch_bytes) {
  if (!has(device))
    if (Status s = use(device); !s) return s;
  if (scratch_bytes > scratch_bytes_ || scratch_bytes_ == 0)
    return grow_scratch(std::max(scratch_bytes, kSmallestScratch));
  return {};
}

Result<std::byte*> LiveDevices::pinned_block(size_t bytes) try {
  auto* const block = static_cast<std::byte*>(process_->arena().allocate(bytes));
  auto pinned = process_->pinned().pin(block, bytes);
  if (pinned) return block;
  process_->arena().release(block);
  return std::move(pinned.error());
} catch (...) {
  return caught_error();
}

// Of all tracks: the call's is not known yet. By a quarter at least, so that what is outgrown, and
// kept, is no more than four times as much.
Status LiveDevices::grow_scratch(size_t bytes) {
  const size_t larger = grown(std::max(bytes, scratch_bytes_ + scratch_bytes_ / 4));
  std::vector<std::byte*> fresh;
  for (size_t track = 0; track < scratch_.size(); ++track) {
    auto block = pinned_block(larger);
    if (!block) {
      for (std::byte* made : fresh) process_->arena().release(made);
      return std::move(block.error());
    }
    fresh.push_back(*block);
  }
  const std::lock_guard lock(mutex_);
  for (size_t track = 0; track < fresh.size(); ++track) scratch_[track].push_back(fresh[track]);
  scratch_bytes_ = larger;
  return {};
}

Result<std::byte*> LiveDevices::staging(size_t bytes) try {
  const size_t larger = grown(std::max(bytes, kSmallestStaging));
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& free = free_staging_[larger];
    if (!free.empty()) {
      std::byte* const block = free.back();
      free.pop_back();
      return block;
    }
  }
  auto block = pinned_block(larger);
  if (!block) return block;
  const std::lock_guard lock(mutex_);
  staging_.emplace(*block, larger);
  free_staging_[larger].reserve(staging_.size());  // so that to give back cannot fail
  return block;
} catch (...) {
  return caught_error();
}

void LiveDevices::give_back(std::byte* staging) noexcept {
  const std::lock_guard lock(mutex_);
  free_staging_.find(staging_.find(staging)->second)->second.push_back(staging);
}

Status LiveDevices::check(const char* what, int device, void* stream,
                          std::span<void* const> buffers) {
  if (!has(device))
    if (Status s = use(device); !s) return s;
  const Device& used = in_use(device).device;
  const CurrentContext current(used, std::nothrow);
  if (!current) return current.status();
  if (Status s = in_use(device).gates.refuse_capture(static_cast<CUstream>(stream)); !s) return s;
  for (const void* buffer : buffers) {
    if (!buffer) continue;
    const PointerPlace place = place_of(used.driver().memory.pointer_attributes, buffer);
    if (Status s = cuda::check(used.driver(), place.code, "cuPointerGetAttributes", device); !s)
      return s;
    if (place.managed || (place.of_device && place.ordinal == device)) continue;
    const std::string where =
        place.of_device ? fmt::format("of device {}", place.ordinal) : std::string("of the host");
    return Error(ErrorCode::invalid_argument,
                 fmt::format("{}: a buffer is memory {}, and the call is on a stream of device {}: "
                             "all buffers of a call must be there",
                             what, where, device));
  }
  return {};
}

}  // namespace

std::unique_ptr<GroupDevices> make_group_devices(const CudaOptions& options, int tracks,
                                                 int doorbell) {
  return std::make_unique<LiveDevices>(options, tracks, doorbell);
}

}  // namespace ringwood

#include "transports/cuda/process_devices.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>

#include "transports/base/fork_guard.h"
#include "transports/base/log.h"
#include "transports/cuda/loaded_driver.h"

namespace ringwood::cuda {
namespace {

constexpr const char* kNoArena =
    "memory of a device is copied by way of shared memory, and this process has none: see the "
    "first warning";

std::atomic<int> first_pid{0};  // of the process that used CUDA first

}  // namespace

Result<std::shared_ptr<ProcessDevices>> ProcessDevices::of_process(const CudaOptions& options) {
  static std::mutex mutex;
  static std::condition_variable gone;
  static std::weak_ptr<ProcessDevices> known;
  static bool exists = false;
  int expected = 0;
  // Locks that another thread held at a fork stay locked in the child.
  if (!first_pid.compare_exchange_strong(expected, current_pid()) && forked_since(expected))
    return Error(ErrorCode::unsupported,
                 "CUDA was used before this process was forked, and a forked process cannot use "
                 "it; start processes with spawn, or fork them before the first use of a GPU");
  std::unique_lock lock(mutex);
  std::shared_ptr<ProcessDevices> all = known.lock();
  // One that is ending still has its blocks registered, which cannot be done twice.
  gone.wait(lock, [&] { return (all = known.lock()) || !exists; });
  if (all) return all;
  Arena* const arena = Arena::of_process();
  if (!arena) return Error(ErrorCode::system, kNoArena);
  auto driver = load(options.library);
  if (!driver) return std::move(driver.error());
  LoadedDriver::look(options.library);
  if (!options.library.empty())
    log(LogLevel::warn, "cuda",
        fmt::format("RINGWOOD_CUDA_LIBRARY={} stands in for NVIDIA's driver", options.library));
  const auto end = [](ProcessDevices* ending) {
    delete ending;
    const std::lock_guard ended(mutex);
    exists = false;
    gone.notify_all();
  };
  all.reset(new ProcessDevices(**driver, *arena, options.pinned_bytes), end);
  exists = true;
  known = all;
  return all;
}

ProcessDevices::ProcessDevices(const Driver& driver, Arena& arena, size_t max_pinned)
    : driver_(driver), arena_(arena), max_pinned_(max_pinned) {}

Result<const Device*> ProcessDevices::device(int ordinal) try {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Device>& device = devices_[ordinal];
  if (!device) {
    auto made = std::make_unique<Device>(driver_, ordinal);
    if (!made->facts().registers_host_memory)
      return Error(ErrorCode::unsupported,
                   fmt::format("device {} ({}) cannot copy from registered memory of the host",
                               ordinal, made->facts().name));
    if (!pinned_) pinned_ = std::make_unique<PinnedBlocks>(arena_, *made, max_pinned_);
    device = std::move(made);
  }
  return device.get();
} catch (...) {
  return caught_error();
}

}  // namespace ringwood::cuda

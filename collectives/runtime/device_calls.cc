#include "collectives/runtime/device_calls.h"

#include <utility>

namespace ringwood {

Status DeviceCalls::enter(CollectiveState& operation) {
  const auto [device, stream] = operation.call().on;
  if (Status s = devices_->ready(device, operation.call().plan->memory.scratch_bytes); !s) return s;
  auto entered = devices_->enter(device, stream);
  if (!entered) return std::move(entered.error());
  operation.run.entered = *entered;
  return {};
}

void DeviceCalls::leave(CollectiveState& operation) noexcept {
  if (const auto entered = std::exchange(operation.run.entered, std::nullopt))
    devices_->abandon(operation.call().on.device, *entered);
}

Status DeviceCalls::check(const char* what, int device, std::span<void* const> buffers) {
  const std::lock_guard lock(mutex_);
  return devices_->check(what, device, buffers);
}

}  // namespace ringwood

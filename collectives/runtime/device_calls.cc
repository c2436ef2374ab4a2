#include "collectives/runtime/device_calls.h"

#include <utility>

namespace ringwood {

Result<DeviceCopies::Operation> DeviceCalls::enter(CollectiveState& operation) {
  const CollectiveCall& call = operation.call();
  if (Status s = devices_->ready(call.on.device, call.plan->memory.scratch_bytes); !s)
    return std::move(s.error());
  auto entered = devices_->enter(call.on.device, call.on.stream);
  if (entered) operation.run.entered = *entered;
  return entered;
}

Result<DeviceCopies::Operation> DeviceCalls::enter(MessageState& message) {
  const auto [device, stream] = message.on;
  if (Status s = devices_->ready(device, 0); !s) return std::move(s.error());
  auto staging = devices_->staging(message.bytes);
  if (!staging) return std::move(staging.error());
  auto entered = devices_->enter(device, stream);
  if (entered) {
    message.staging = *staging;
    message.entered = *entered;
  } else {
    devices_->give_back(*staging);
  }
  return entered;
}

Status DeviceCalls::hold_back(const DeviceStream& on, DeviceCopies::Operation entered) {
  const auto group = together_.find(std::this_thread::get_id());
  if (group == together_.end()) return devices_->hold_back(on.device, on.stream, entered);
  group->second.push_back({on, entered});
  return {};
}

void DeviceCalls::begin_together() {
  const std::lock_guard lock(mutex_);
  together_[std::this_thread::get_id()];
}

Status DeviceCalls::end_together() {
  const std::lock_guard lock(mutex_);
  const auto group = together_.extract(std::this_thread::get_id());
  Status all;
  for (const auto& [on, operation] : group.mapped())
    if (Status s = devices_->hold_back(on.device, on.stream, operation); !s) all = std::move(s);
  return all;
}

void DeviceCalls::leave(CollectiveState& operation) noexcept {
  if (const auto entered = std::exchange(operation.run.entered, std::nullopt))
    devices_->abandon(operation.call().on.device, *entered);
}

void DeviceCalls::leave(MessageState& message) noexcept {
  if (const auto entered = std::exchange(message.entered, std::nullopt))
    devices_->abandon(message.on.device, *entered);
  if (message.staging) devices_->give_back(std::exchange(message.staging, nullptr));
}

Status DeviceCalls::check(const char* what, const DeviceStream& on,
                          std::span<void* const> buffers) {
  used_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  return devices_->check(what, on.device, on.stream, buffers);
}

}  // namespace ringwood

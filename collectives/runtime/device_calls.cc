#include "collectives/runtime/device_calls.h"

#include <algorithm>
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

// For the few groups that a thread launches at a time, one in the callback of another.
std::vector<DeviceCalls::Together>& DeviceCalls::of_thread() {
  thread_local std::vector<Together> all;
  return all;
}

DeviceCalls::Together* DeviceCalls::together() const {
  const auto it = std::ranges::find(of_thread(), this, &Together::calls);
  return it == of_thread().end() ? nullptr : &*it;
}

Status DeviceCalls::hold_back(const DeviceStream& on, DeviceCopies::Operation entered) try {
  Together* const group = together();
  if (!group) return devices_->hold_back(on.device, on.stream, entered);
  group->entered.push_back({on, entered});
  return {};
} catch (...) {
  return caught_error();
}

bool DeviceCalls::begin_together() {
  if (together()) return false;
  of_thread().push_back({this, {}});
  return true;
}

Status DeviceCalls::end_together() {
  const std::vector<Entered> entered = std::move(together()->entered);
  std::erase_if(of_thread(), [this](const Together& one) { return one.calls == this; });
  Status all;
  if (entered.empty()) return all;
  const std::lock_guard lock(mutex_);
  for (const auto& [on, operation] : entered)
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

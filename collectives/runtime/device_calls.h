// Operations on memory of devices, on the side of the calls: how they enter their streams, and what
// becomes of those that end before their plan begins (transports/device_copies.h).
//
// A stream comes to an operation only after those that entered it before. So operations enter in
// the order of their numbers; or an earlier number would wait for a later one, and the group for
// ever. Whoever enters an operation holds in_order() until it has its number.
//
// That lock is not the engine's: where a user's stream is full, CUDA waits for its operations,
// which the driver must be able to end. Lock order: this one, then the engine's.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "collectives/operations/operation.h"
#include "transports/device_copies.h"

namespace ringwood {

class DeviceCalls final {
 public:
  explicit DeviceCalls(std::unique_ptr<GroupDevices> devices) : devices_(std::move(devices)) {}

  // What the driver uses.
  GroupDevices& devices() const { return *devices_; }
  std::unique_lock<std::mutex> in_order() { return std::unique_lock(mutex_); }
  // Makes what the operation's plan needs, and enters its stream. Precondition: in_order().
  Status enter(CollectiveState& operation);
  // Lets the stream of one that has entered and not begun go on.
  void leave(CollectiveState& operation) noexcept;
  // Refuses buffers that are not memory of that device. Takes the lock.
  Status check(const char* what, int device, std::span<void* const> buffers);

 private:
  const std::unique_ptr<GroupDevices> devices_;
  std::mutex mutex_;
};

// What a caller did wrong, or lacks: nothing has begun, and it is told to the caller alone. Any
// other error is told to all ranks, which are going to wait for this one.
inline bool is_of_the_caller(const Error& error) {
  return error.code == ErrorCode::unsupported || error.code == ErrorCode::invalid_argument;
}

}  // namespace ringwood

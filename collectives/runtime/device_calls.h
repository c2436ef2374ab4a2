// Operations on memory of devices, on the side of the calls: how they enter their streams, and what
// becomes of those that end before their plan begins (transports/device_copies.h).
//
// A stream comes to an operation only after those that entered it before. So operations enter in
// the order of their numbers; or an earlier number would wait for a later one, and the group for
// ever. And none enters before the stream is held back for the one before it, or both would run at
// once. Whoever enters an operation holds in_order() until then. The calls of a group
// (Communicator::group_start()) enter together: their stream comes to all of them before it waits
// for the end of one, so that a receive and a send behind it are both carried out.
//
// That lock is not the engine's: where a user's stream is full, CUDA waits for its operations,
// which the driver must be able to end. Lock order: this one, then the engine's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/operations/operation.h"
#include "transports/device_copies.h"

namespace ringwood {

class DeviceCalls final {
 public:
  explicit DeviceCalls(std::unique_ptr<GroupDevices> devices) : devices_(std::move(devices)) {}

  // What the driver uses.
  GroupDevices& devices() const { return *devices_; }
  std::unique_lock<std::mutex> in_order() { return std::unique_lock(mutex_); }
  // Makes what the operation needs, and enters its stream. Precondition: in_order().
  Result<DeviceCopies::Operation> enter(CollectiveState& operation);
  Result<DeviceCopies::Operation> enter(MessageState& message);
  // What is put into its stream from now on, or from end_together() on, comes after its end. To be
  // called once after enter(), whatever became of the operation. Precondition: in_order().
  Status hold_back(const DeviceStream& on, DeviceCopies::Operation entered);
  // Between these the calls of this thread enter together. False: they do already, in a group that
  // is being launched; end_together() is not to be called then. Neither takes a lock where no call
  // has entered: a callback of the driver, which must not wait, may launch a group on the host.
  bool begin_together();
  Status end_together();
  // There was a call on memory of a device.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Lets the stream of one that has entered and not begun go on.
  void leave(CollectiveState& operation) noexcept;
  void leave(MessageState& message) noexcept;
  // Refuses buffers that are not memory of that device, and a captured stream. Takes the lock.
  Status check(const char* what, const DeviceStream& on, std::span<void* const> buffers);

 private:
  struct Entered {
    DeviceStream on;
    DeviceCopies::Operation operation;
  };
  struct Together {
    const DeviceCalls* calls;
    std::vector<Entered> entered;
  };
  Together* together() const;  // of this thread, or null
  static std::vector<Together>& of_thread();

  const std::unique_ptr<GroupDevices> devices_;
  std::atomic<bool> used_{false};
  std::mutex mutex_;
};

// What a caller did wrong, or lacks: nothing has begun, and it is told to the caller alone. Any
// other error is told to all ranks, which are going to wait for this one.
inline bool is_of_the_caller(const Error& error) {
  return error.code == ErrorCode::unsupported || error.code == ErrorCode::invalid_argument;
}

}  // namespace ringwood

// Calls on memory of a GPU, by the device group of a communicator (device_group.h).
//
// Thread safety: all functions. Errors: thrown.
#pragma once

#include <memory>

#include "collectives/device/group/device_group.h"
#include "collectives/nccl/call.h"

namespace ringwood::nccl {

class DeviceCalls {
 public:
  // Collective: of all ranks of the communicator.
  DeviceCalls(Communicator& group, int gpu);

  int gpu() const { return device_.ordinal(); }
  // Gives the call to its stream.
  void enqueue(const Call& call);

 private:
  void copy(cuda::CUdeviceptr to, cuda::CUdeviceptr from, size_t bytes, cuda::CUstream stream);

  const cuda::Device& device_;
  const std::unique_ptr<device::DeviceGroup> group_;
};

// With which device groups are made. Tests change them before the first call.
device::DeviceOptions& device_options();

}  // namespace ringwood::nccl

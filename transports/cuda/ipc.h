// Buffers of the user's in ordinary device memory (cudaMalloc, PyTorch's caching allocator), which
// has no descriptor but the driver's older inter-process handle. It is of a whole allocation: the
// buffer's place in it travels beside it. The exporting process must keep the allocation until its
// peers have closed it.
//
// A process opens an allocation once per device, however many buffers in it are used: the memory is
// found by device, base, size and handle, because base addresses of two processes may be equal.
// It cannot open what it exported itself.
//
// Thread safety: all functions. Errors: thrown. In a child of fork() nothing but destruction is
// allowed. Sizes are bytes.
#pragma once

#include <memory>

#include "transports/cuda/device.h"

namespace ringwood::cuda {

// How a buffer can be shared with other processes.
enum class Sharing { by_descriptor, by_ipc_handle, none };
Sharing sharing_of(const Device& device, CUdeviceptr data);
const char* to_string(Sharing sharing);

// Sent to peers as it is: no pointers of this process are in it but for `base`, a name.
struct IpcAllocation {
  Uuid device;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUipcMemHandle handle{};
};
struct IpcBuffer {
  IpcAllocation allocation;
  size_t offset = 0;  // of the buffer in it
};

// The allocation that holds `data`. Error(unsupported): it is of another kind.
IpcBuffer export_buffer(const Device& device, CUdeviceptr data);

// A peer's allocation, open in this process.
class OpenAllocation {
 public:
  // Opened already, or now. `device`: from which it is used.
  static std::shared_ptr<const OpenAllocation> of(const Device& device,
                                                  const IpcAllocation& allocation);
  OpenAllocation(const OpenAllocation&) = delete;
  OpenAllocation& operator=(const OpenAllocation&) = delete;
  ~OpenAllocation();

  CUdeviceptr base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  OpenAllocation(const Device& device, const IpcAllocation& allocation);
  // Its own: whoever opened it first may be gone before the last who uses it.
  const Device device_;
  const size_t bytes_;
  CUdeviceptr base_ = 0;
};

}  // namespace ringwood::cuda

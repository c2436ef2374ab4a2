// Pinned memory of the arena and memory of a device, for checks. Errors: thrown.
#pragma once

#include <cstddef>

#include "transports/cuda/handles.h"
#include "transports/cuda/pinned.h"

namespace ringwood::gpu_check {

class Memory final {
 public:
  Memory(const cuda::Device& device, size_t bytes)
      : device_(device), pinned_(arena(), device, bytes + kRoom) {
    host_ = static_cast<std::byte*>(arena().allocate(bytes));
    auto seen = pinned_.pin(host_, bytes);
    if (!seen) throw std::move(seen.error());
    seen_ = *seen;
    const cuda::CurrentContext current(device);
    device.require(device.driver().memory.allocate(&there_, bytes), "cuMemAlloc");
  }
  ~Memory() {
    const cuda::CurrentContext current(device_, std::nothrow);
    device_.driver().memory.release(there_);
    arena().release(host_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* host() const { return host_; }
  cuda::CUdeviceptr host_as_seen() const { return seen_; }
  cuda::CUdeviceptr device() const { return there_; }
  void copy_out(cuda::CUstream stream, size_t bytes) const {
    const cuda::CurrentContext current(device_);
    device_.require(device_.driver().memory.copy_to_host(host_, there_, bytes, stream),
                    "cuMemcpyDtoHAsync");
  }
  void copy_in(cuda::CUstream stream, size_t bytes) const {
    const cuda::CurrentContext current(device_);
    device_.require(device_.driver().memory.copy_to_device(there_, host_, bytes, stream),
                    "cuMemcpyHtoDAsync");
  }

 private:
  static constexpr size_t kRoom = size_t{4} << 20;  // a block is larger than what is in it
  static Arena& arena() {
    Arena* const arena = Arena::of_process();
    if (!arena) throw Error(ErrorCode::system, "there is no shared memory to pin");
    return *arena;
  }

  const cuda::Device& device_;
  cuda::PinnedBlocks pinned_;
  std::byte* host_ = nullptr;
  cuda::CUdeviceptr seen_ = 0, there_ = 0;
};

}  // namespace ringwood::gpu_check

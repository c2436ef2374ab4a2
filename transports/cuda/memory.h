// Memory that ranks of a host share: a device's arena, the arenas and buffers of peers, and pinned
// host memory.
//
// An arena is one allocation, because sizes are multiples of 2 MiB. Its descriptor travels over a
// Unix socket (transports/shm/unix_socket.h); a rank that has it maps the memory, in any process.
// Never pidfd_getfd(): containers forbid it. A buffer of the user's may lie in several allocations
// that follow each other (PyTorch's expandable segments): all are shared, and mapped in one row.
//
// The memory lives until the last process has unmapped it; whoever unmaps only loses his own
// addresses. Unmapping what a kernel still uses costs the context: leave() then gives the memory up
// to the end of the process.
//
// Thread safety: all const functions. Errors: thrown, and leave nothing behind. In a child of
// fork() nothing but destruction is allowed. A Device must outlive what is made on it. Sizes are
// bytes.
#pragma once

#include <span>
#include <vector>

#include "transports/cuda/virtual_memory.h"

namespace ringwood::cuda {

// One allocation of a peer, as told by it: the descriptor, and all of its bytes.
struct SharedPart {
  OwnedFd fd;
  size_t bytes = 0;
};

// Allocations in one row of addresses, accessible to the device.
class MappedRow {
 public:
  MappedRow(const Device& device, std::vector<Allocation> allocations,
            const std::vector<size_t>& bytes);
  MappedRow(MappedRow&&) = default;

  CUdeviceptr base() const { return reservation_.base(); }
  size_t bytes() const { return reservation_.bytes(); }
  const Allocation& allocation(size_t i) const { return allocations_[i]; }
  void leave() noexcept;

 private:
  // Ended from the last to the first.
  std::vector<Allocation> allocations_;
  Reservation reservation_;
  std::vector<Mapping> mappings_;
};

// Memory of the device for windows, scratch and users' tensors, as peers map it. Not zeroed.
class DeviceArena {
 public:
  // At least `bytes`: rounded up to the granularity.
  DeviceArena(const Device& device, size_t bytes);

  CUdeviceptr base() const { return row_.base(); }
  size_t bytes() const { return row_.bytes(); }
  // For a peer: {share(), bytes()} is its SharedPart.
  OwnedFd share() const { return row_.allocation(0).share(); }
  void leave() noexcept { row_.leave(); }

 private:
  MappedRow row_;
};

// A peer's arena, or its buffer of several parts, mapped for the device.
class PeerArena {
 public:
  // Error(unsupported) where the device cannot reach that memory: the pair needs another transport.
  PeerArena(const Device& device, std::span<const SharedPart> parts);

  CUdeviceptr base() const { return row_.base(); }
  size_t bytes() const { return row_.bytes(); }
  void leave() noexcept { row_.leave(); }

 private:
  MappedRow row_;
};

// A buffer of this process in memory that has descriptors.
struct SharedRange {
  std::vector<SharedPart> parts;
  size_t offset = 0;  // of the buffer in the first part
};
SharedRange share_range(const Device& device, CUdeviceptr data, size_t bytes);

// Host memory that the device reads and writes, zeroed, page-locked and usable by all devices.
class PinnedMemory {
 public:
  PinnedMemory(const Device& device, size_t bytes);
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  // The same memory, as kernels see it.
  CUdeviceptr on_device() const { return on_device_; }
  size_t bytes() const { return bytes_; }

 private:
  const Device& device_;
  const size_t bytes_;
  void* data_ = nullptr;
  CUdeviceptr on_device_ = 0;
};

}  // namespace ringwood::cuda

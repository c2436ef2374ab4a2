// Blocks of the arena (transports/memory/arena.h) that the devices of this process copy from and to
// directly: page-locked, registered with the driver once, and kept so.
//
// Never stale. An address of the arena gets other pages only when the arena gives them back to the
// kernel; it says so before, and a block with one of these pages is unregistered then. A block that
// is released and allocated again with its pages stays registered. The pages are shared, so forks
// change nothing; a forked child makes no call.
//
// To unregister may wait for all streams of a device. So a thread that an operation waits for, as
// the engine's driver, releases no pinned block while one is under way.
//
// Bounded, because locked pages are lost to all of the host. Registering is slow, so a block is
// registered as a whole and stays so until its pages go.
//
// Thread safety: all functions. Lock order: the arena's supply, then the mutexes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "transports/cuda/device.h"
#include "transports/memory/arena.h"

namespace ringwood::cuda {

class PinnedBlocks final : private PageWatcher {
 public:
  // `max_bytes`: of all blocks together. The device must outlive this.
  PinnedBlocks(Arena& arena, const Device& device, size_t max_bytes);
  ~PinnedBlocks();
  PinnedBlocks(const PinnedBlocks&) = delete;
  PinnedBlocks& operator=(const PinnedBlocks&) = delete;

  // Registers the block in use that contains [data, data + bytes), if it is not. Returns the
  // address of `data` for the devices. Error: it lies in no block, the bound is reached, or the
  // driver refuses; the sentence names the bytes that are pinned and the remedy.
  Result<CUdeviceptr> pin(const void* data, size_t bytes);
  // The address of pinned data for another device.
  static Result<CUdeviceptr> seen_by(const Device& device, void* data);
  size_t bytes() const;

 private:
  struct Block {
    uint64_t bytes = 0;
    CUdeviceptr seen = 0;  // by the devices
  };
  using Table = std::map<uint64_t, Block>;

  void pages_go(uint64_t offset, uint64_t bytes) noexcept override;
  // Preconditions: slow_ is held, and mutex_ is not.
  Result<CUdeviceptr> add(uint64_t offset, uint64_t bytes);
  void remove_overlapping(uint64_t begin, uint64_t end) noexcept;  // [begin, end)
  // The address of a block of that size that is registered; else 0.
  CUdeviceptr known(uint64_t offset, uint64_t bytes) const;
  Table::iterator first_overlapping(uint64_t begin);  // precondition: mutex_

  Arena& arena_;
  const Device& device_;
  const size_t max_bytes_;
  std::mutex slow_;  // held in calls that register; before mutex_
  mutable std::mutex mutex_;
  Table blocks_;  // by offset in the arena; they do not overlap
  size_t bytes_ = 0;
};

}  // namespace ringwood::cuda

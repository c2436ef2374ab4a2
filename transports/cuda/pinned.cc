#include "transports/cuda/pinned.h"

#include <fmt/format.h>

#include "transports/cuda/check.h"

namespace ringwood::cuda {

PinnedBlocks::PinnedBlocks(Arena& arena, const Device& device, size_t max_bytes)
    : arena_(arena), device_(device), max_bytes_(max_bytes) {
  arena_.watch(*this);
}

PinnedBlocks::~PinnedBlocks() {
  arena_.unwatch(*this);
  const std::lock_guard slow(slow_);
  remove_overlapping(0, arena_.bytes());
}

Result<CUdeviceptr> PinnedBlocks::pin(const void* data, size_t bytes) {
  const auto block = arena_.block_of(data, bytes);
  if (!block)
    return Error(ErrorCode::internal, fmt::format("{} bytes to be pinned are in no block", bytes));
  const std::lock_guard slow(slow_);
  CUdeviceptr seen = known(block->offset, block->bytes);
  if (seen == 0) {
    auto added = add(block->offset, block->bytes);
    if (!added) return added;
    seen = *added;
  }
  return seen + (*arena_.offset_of(data, bytes) - block->offset);
}

// One of another size was of a block that is gone; its pages need not go together.
CUdeviceptr PinnedBlocks::known(uint64_t offset, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(offset);
  return found == blocks_.end() || found->second.bytes != bytes ? 0 : found->second.seen;
}

Result<CUdeviceptr> PinnedBlocks::seen_by(const Device& device, void* data) {
  const CurrentContext current(device, std::nothrow);
  if (!current) return std::move(current.status().error());
  CUdeviceptr seen = 0;
  if (Status s = check(device.driver(), device.driver().memory.host_device_pointer(&seen, data, 0),
                       "cuMemHostGetDevicePointer", device.ordinal());
      !s)
    return std::move(s.error());
  return seen;
}

size_t PinnedBlocks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

Result<CUdeviceptr> PinnedBlocks::add(uint64_t offset, uint64_t bytes) {
  remove_overlapping(offset, offset + bytes);  // of blocks that were here before
  const size_t in_use = this->bytes();
  if (bytes > max_bytes_ - std::min(in_use, max_bytes_))
    return Error(ErrorCode::system,
                 fmt::format("{} bytes more of pinned memory are needed, {} are in use, and {} are "
                             "allowed (RINGWOOD_PINNED_BYTES)",
                             bytes, in_use, max_bytes_));
  const MemoryCalls& memory = device_.driver().memory;
  const CurrentContext current(device_, std::nothrow);
  const BesideCaptures beside(device_);
  if (!current) return std::move(current.status().error());
  void* const data = arena_.at(offset);
  const unsigned flags = kHostRegisterPortable | kHostRegisterDeviceMap;
  if (Status s = check(device_.driver(), memory.host_register(data, bytes, flags),
                       "cuMemHostRegister", device_.ordinal());
      !s) {
    s.error().cause += fmt::format(" ({} bytes beside {} that are pinned)", bytes, in_use);
    return std::move(s.error());
  }
  Block made{bytes, 0};
  if (Status s = check(device_.driver(), memory.host_device_pointer(&made.seen, data, 0),
                       "cuMemHostGetDevicePointer", device_.ordinal());
      !s) {
    memory.host_unregister(data);
    return std::move(s.error());
  }
  const std::lock_guard lock(mutex_);
  blocks_.emplace(offset, made);
  bytes_ += bytes;
  return made.seen;
}

PinnedBlocks::Table::iterator PinnedBlocks::first_overlapping(uint64_t begin) {
  auto block = blocks_.lower_bound(begin);
  if (block == blocks_.begin()) return block;
  const auto before = std::prev(block);
  return before->first + before->second.bytes > begin ? before : block;
}

void PinnedBlocks::remove_overlapping(uint64_t begin, uint64_t end) noexcept {
  const BesideCaptures beside(device_);
  const CurrentContext current(device_, std::nothrow);
  while (true) {
    Table::node_type block;
    {
      const std::lock_guard lock(mutex_);
      const auto found = first_overlapping(begin);
      if (found == blocks_.end() || found->first >= end) return;
      bytes_ -= found->second.bytes;
      block = blocks_.extract(found);
    }
    if (current) device_.driver().memory.host_unregister(arena_.at(block.key()));
  }
}

// Called by threads that operations wait for: what is not pinned costs them no wait.
void PinnedBlocks::pages_go(uint64_t offset, uint64_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = first_overlapping(offset);
    if (found == blocks_.end() || found->first >= offset + bytes) return;
  }
  const std::lock_guard slow(slow_);
  remove_overlapping(offset, offset + bytes);
}

}  // namespace ringwood::cuda

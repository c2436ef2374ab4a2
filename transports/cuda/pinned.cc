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
  const std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) block = remove(block);
}

Result<CUdeviceptr> PinnedBlocks::pin(const void* data, size_t bytes) {
  const auto block = arena_.block_of(data, bytes);
  if (!block)
    return Error(ErrorCode::internal, fmt::format("{} bytes to be pinned are in no block", bytes));
  const std::lock_guard lock(mutex_);
  auto known = blocks_.find(block->offset);
  // One of another size was of a block that is gone; its pages need not go together.
  if (known == blocks_.end() || known->second.bytes != block->bytes) {
    if (Status added = add(block->offset, block->bytes); !added) return std::move(added.error());
    known = blocks_.find(block->offset);
  }
  return known->second.seen + (*arena_.offset_of(data, bytes) - block->offset);
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

Status PinnedBlocks::add(uint64_t offset, uint64_t bytes) {
  remove_overlapping(offset, offset + bytes);  // of blocks that were here before
  if (bytes > max_bytes_ - std::min(bytes_, max_bytes_))
    return Error(ErrorCode::system,
                 fmt::format("{} bytes more of pinned memory are needed, {} are in use, and {} are "
                             "allowed (RINGWOOD_PINNED_BYTES)",
                             bytes, bytes_, max_bytes_));
  const MemoryCalls& memory = device_.driver().memory;
  const CurrentContext current(device_, std::nothrow);
  const BesideCaptures beside(device_);
  if (!current) return current.status();
  void* const data = arena_.at(offset);
  const unsigned flags = kHostRegisterPortable | kHostRegisterDeviceMap;
  if (Status s = check(device_.driver(), memory.host_register(data, bytes, flags),
                       "cuMemHostRegister", device_.ordinal());
      !s) {
    s.error().cause += fmt::format(" ({} bytes beside {} that are pinned)", bytes, bytes_);
    return s;
  }
  Block made{bytes, 0};
  if (Status s = check(device_.driver(), memory.host_device_pointer(&made.seen, data, 0),
                       "cuMemHostGetDevicePointer", device_.ordinal());
      !s) {
    memory.host_unregister(data);
    return s;
  }
  blocks_.emplace(offset, made);
  bytes_ += bytes;
  return {};
}

PinnedBlocks::Table::iterator PinnedBlocks::remove(Table::iterator block) noexcept {
  const BesideCaptures beside(device_);
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().memory.host_unregister(arena_.at(block->first));
  bytes_ -= block->second.bytes;
  return blocks_.erase(block);
}

void PinnedBlocks::remove_overlapping(uint64_t begin, uint64_t end) noexcept {
  auto block = blocks_.lower_bound(begin);
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    if (before->first + before->second.bytes > begin) block = before;
  }
  while (block != blocks_.end() && block->first < end) block = remove(block);
}

void PinnedBlocks::pages_go(uint64_t offset, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  remove_overlapping(offset, offset + bytes);
}

}  // namespace ringwood::cuda

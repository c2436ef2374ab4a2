#include "transports/memory/block_table.h"

#include <algorithm>
#include <iterator>

namespace ringwood {
namespace {

uint64_t round_up(uint64_t x, uint64_t unit) { return (x + unit - 1) / unit * unit; }

}  // namespace

std::optional<uint64_t> BlockTable::take(uint64_t bytes, uint64_t alignment, uint64_t past) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    const uint64_t at = round_up(std::max(offset, past) - past, alignment) + past;
    if (at + bytes > offset + size) continue;
    free_.erase(it);
    if (at > offset) free_[offset] = at - offset;
    if (at + bytes < offset + size) free_[at + bytes] = offset + size - at - bytes;
    used_[at] = {bytes};
    return at;
  }
  return std::nullopt;
}

std::optional<uint64_t> BlockTable::retire(uint64_t offset) noexcept {
  const auto found = used_.find(offset);
  if (found == used_.end() || found->second.quarantined) return std::nullopt;
  const uint64_t bytes = found->second.bytes;
  used_.erase(found);
  return bytes;
}

void BlockTable::add_free(uint64_t at, uint64_t bytes) {
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free_[at] = bytes;
}

std::optional<BlockTable::Block> BlockTable::around(uint64_t offset,
                                                    uint64_t bytes) const noexcept {
  auto found = used_.upper_bound(offset);
  if (found == used_.begin()) return std::nullopt;
  --found;
  const uint64_t size = found->second.bytes;
  if (bytes > size || offset - found->first > size - bytes) return std::nullopt;
  return Block{found->first, size};
}

void BlockTable::quarantine(uint64_t offset) noexcept {
  if (const auto block = around(offset, 1)) used_.find(block->offset)->second.quarantined = true;
}

bool BlockTable::in_quarantine(uint64_t offset) const noexcept {
  const auto found = used_.find(offset);
  return found != used_.end() && found->second.quarantined;
}

void BlockTable::keep_from_forks(uint64_t offset) noexcept {
  if (const auto found = used_.find(offset); found != used_.end()) found->second.forked = false;
}

}  // namespace ringwood

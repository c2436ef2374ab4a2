// Which buffers have pages of the arena under their own addresses (remap.h), as far as this process
// has remapped them, and where in the arena.
//
//   user:   [ others | edge ][  whole pages  ][ edge | others ]
//                       |     same memory         |
//   arena:  [        shadow ][  whole pages  ][ shadow        ]
//
// Thread safety: all functions of RemappedBuffers, with a mutex of its own, taken after all others.
// Only the kernel knows what has become of the addresses since then (remapper.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace ringwood {

struct RemappedBuffer {
  static constexpr uintptr_t kPage = 4096;

  uintptr_t begin = 0, end = 0;   // the buffer
  uintptr_t first = 0, last = 0;  // its whole pages
  // In the arena: shadow, pages, shadow. Held here, and by exposed messages.
  std::shared_ptr<std::byte> block;
  uint64_t offset = 0;  // of the block

  // Without a block yet.
  static RemappedBuffer at(uintptr_t begin, uintptr_t end) {
    return {begin, end, (begin + kPage - 1) & ~(kPage - 1), end & ~(kPage - 1), {}, 0};
  }
  // The offset in the arena of an address of the buffer. The block begins a page before the first
  // whole page.
  uint64_t offset_of(uintptr_t address) const { return offset + (address - (first - kPage)); }
  uint64_t block_bytes() const { return last - first + 2 * kPage; }
};

class RemappedBuffers final {
 public:
  // True if one covers [begin, end).
  bool cover(uintptr_t begin, uintptr_t end) const {
    std::shared_lock lock(mutex_);
    return find(begin, end) != nullptr;
  }
  std::optional<RemappedBuffer> covering(uintptr_t begin, uintptr_t end) const {
    std::shared_lock lock(mutex_);
    const RemappedBuffer* const found = find(begin, end);
    return found ? std::optional(*found) : std::nullopt;
  }
  std::vector<RemappedBuffer> all() const {
    std::shared_lock lock(mutex_);
    std::vector<RemappedBuffer> all;
    for (const auto& [begin, buffer] : buffers_) all.push_back(buffer);
    return all;
  }
  // Precondition: it overlaps none.
  void add(const RemappedBuffer& buffer) {
    std::lock_guard lock(mutex_);
    buffers_[buffer.begin] = buffer;
  }
  // Removes and returns those that overlap [begin, end).
  std::vector<RemappedBuffer> take_overlapping(uintptr_t begin, uintptr_t end) {
    return take_if([=](const RemappedBuffer& b) { return b.begin < end && begin < b.end; });
  }
  // Removes and returns those for which `chosen` is true.
  template <class Chosen>
  std::vector<RemappedBuffer> take_if(Chosen chosen) {
    std::lock_guard lock(mutex_);
    std::vector<RemappedBuffer> taken;
    for (auto next = buffers_.begin(); next != buffers_.end();) {
      if (!chosen(next->second)) {
        ++next;
        continue;
      }
      taken.push_back(next->second);
      next = buffers_.erase(next);
    }
    return taken;
  }

 private:
  const RemappedBuffer* find(uintptr_t begin, uintptr_t end) const {
    const auto next = buffers_.upper_bound(begin);
    if (next == buffers_.begin()) return nullptr;
    const RemappedBuffer& buffer = std::prev(next)->second;
    return end <= buffer.end ? &buffer : nullptr;
  }

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, RemappedBuffer> buffers_;  // by begin; disjoint
};

}  // namespace ringwood

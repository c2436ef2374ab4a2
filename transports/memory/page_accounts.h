// Which pages of the arena's file (arena.h) exist, and how many of them are in no block: those are
// kept for the next one, up to 512 MiB. Not thread safe: its owner has a mutex.
#pragma once

#include <cstdint>
#include <vector>

#include "transports/memory/extents.h"

namespace ringwood {

class PageAccounts final {
 public:
  // [begin, end) becomes a block. Returns how many bytes of it have pages already.
  uint64_t use(uint64_t begin, uint64_t end) {
    const uint64_t there = reserved_.overlap(begin, end);
    kept_ -= there;
    return there;
  }
  // The parts of [begin, end) that have no pages.
  std::vector<Extents::Extent> missing(uint64_t begin, uint64_t end) const {
    return reserved_.gaps(begin, end);
  }
  // All of [begin, end) has pages now.
  void add(uint64_t begin, uint64_t end) { reserved_.add(begin, end); }
  // Reverts use(): the missing pages could not be had.
  void undo_use(uint64_t begin, uint64_t end) { kept_ += reserved_.overlap(begin, end); }

  // A block of `bytes`, all of which have pages, ends. True: its pages are kept. False: remove()
  // follows, once the kernel has them.
  bool keep(uint64_t bytes) {
    constexpr uint64_t kMaxKept = 512 << 20;
    if (kept_ + bytes > kMaxKept) return false;
    kept_ += bytes;
    return true;
  }
  void remove(uint64_t begin, uint64_t end) { reserved_.remove(begin, end); }

 private:
  Extents reserved_;   // what has pages
  uint64_t kept_ = 0;  // bytes of them in no block
};

}  // namespace ringwood

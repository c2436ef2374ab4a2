// Which ranges of the arena (arena.h) are blocks in use, and which are free. Offsets and sizes in
// bytes. Every byte is free, in one block, or between the two (retire()). Not thread safe: its
// owner has a mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ringwood {

class BlockTable final {
 public:
  explicit BlockTable(uint64_t bytes) : free_{{0, bytes}} {}

  // Allocates a block at the first offset where it fits that is `past` beyond a multiple of
  // `alignment`. Null: it fits nowhere.
  std::optional<uint64_t> take(uint64_t bytes, uint64_t alignment, uint64_t past);
  // Ends the use of the block at `offset`, which is not free before add_free(), and returns its
  // size. Null: no such block, or it is in quarantine.
  std::optional<uint64_t> retire(uint64_t offset) noexcept;
  void add_free(uint64_t offset, uint64_t bytes);

  struct Block {
    uint64_t offset = 0, bytes = 0;
  };
  // The block in use that contains all of [offset, offset + bytes).
  std::optional<Block> around(uint64_t offset, uint64_t bytes) const noexcept;

  // The block in use around `offset` is never retired.
  void quarantine(uint64_t offset) noexcept;
  // For the block at `offset`.
  bool in_quarantine(uint64_t offset) const noexcept;

  // Excludes the block at `offset` from each_of_forks().
  void keep_from_forks(uint64_t offset) noexcept;
  // Calls visit(offset, bytes) in ascending order until it returns false. Returns whether all
  // returned true. Allocates nothing.
  template <class Visit>
  bool each_of_forks(Visit visit) const noexcept {
    for (const auto& [offset, block] : used_)
      if (block.forked && !visit(offset, block.bytes)) return false;
    return true;
  }

 private:
  struct Used {
    uint64_t bytes = 0;
    bool quarantined = false;
    bool forked = true;
  };
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes; neighbours are merged
  std::map<uint64_t, Used> used_;      // by offset
};

}  // namespace ringwood

// The memory that plans need beside the user's buffers. It grows to the largest plan in use and
// lives as long as its owner. Not thread-safe.
#pragma once

#include <cstddef>

#include "transports/memory/arena.h"

namespace ringwood {

class Scratch final {
 public:
  // With an arena, peers read in place what is sent from here; with null, the scratch uses private
  // pages. The arena outlives it.
  explicit Scratch(Arena* arena) : arena_(arena) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The previous contents are lost. Throws Error(system) where memory is short.
  void grow(size_t bytes, size_t wide_bytes) {
    if (bytes > bytes_) grow_data(bytes);
    if (wide_bytes > wide_bytes_) grow_wide(wide_bytes);
  }
  bool in_arena() const { return arena_ != nullptr; }
  std::byte* data() const { return data_; }  // page aligned; null before it has grown, as wide()
  std::byte* wide() const { return wide_; }

 private:
  void grow_data(size_t bytes);
  void grow_wide(size_t bytes);
  void give_data_back() noexcept;

  Arena* const arena_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::byte* wide_ = nullptr;
  size_t wide_bytes_ = 0;
};

}  // namespace ringwood

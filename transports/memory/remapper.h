// Puts pages of the arena under the addresses of a buffer (remap.h), or private ones in their
// place, and asks the kernel which lie there.
//
// A switch is one system call: readers see the same bytes before and after, and nobody may write
// meanwhile. All failures (no memory, too many mappings) leave the buffer as it was.
// Thread safety: all functions; what other threads map, unmap or move at the same addresses is seen
// or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/memory/arena.h"
#include "transports/memory/process_maps.h"
#include "transports/memory/remapped_buffers.h"

namespace ringwood {

class Remapper final {
 public:
  // Throws Error(system) where the kernel cannot be asked what lies where.
  explicit Remapper(Arena& arena) : arena_(arena), file_(FileId::of(arena.fd())) {}

  const FileId& file() const { return file_; }
  // Only ordinary pages are taken (ProcessMaps::ordinary), and none of malloc()'s heaps.
  // Milliseconds.
  bool may_take(const RemappedBuffer& buffer) const;
  // Copies the whole pages of the buffer to its block, and maps that in their place.
  bool remap(const RemappedBuffer& buffer) const noexcept;
  // Whether the block still lies there, page for page; half a microsecond for each mapping.
  bool in_place(const RemappedBuffer& buffer) const noexcept {
    return in_place(buffer, buffer.first, buffer.last);
  }
  bool in_place(const RemappedBuffer& buffer, uintptr_t from, uintptr_t to) const noexcept {
    return maps_.holds(from, to, file_, buffer.offset_of(from));
  }
  // Private pages with the same bytes for what the block lies under of [begin, end).
  bool make_private(const RemappedBuffer& buffer, uintptr_t begin, uintptr_t end) const noexcept;
  // Where the arena's file lies in buffers.
  std::vector<Mapping> pieces() const;

 private:
  std::byte* fill(const RemappedBuffer& buffer) const noexcept;
  bool put_in_place(std::byte* pages, uintptr_t at, size_t bytes) const noexcept;

  Arena& arena_;
  const ProcessMaps maps_;
  const FileId file_;
};

}  // namespace ringwood

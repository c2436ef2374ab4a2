// Maps pages of the arena under the addresses of a buffer (remap.h), or private pages in their
// place, and asks the kernel which are mapped there.
//
// A switch is one system call: readers see the same bytes before and after; nothing may write
// meanwhile. All failures (no memory, too many mappings) leave the buffer as it was. Thread safety:
// all functions; mappings that other threads make, remove or move at the same addresses are seen or
// not.
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
  // Throws Error(system) if the kernel cannot be asked for mappings.
  explicit Remapper(Arena& arena) : arena_(arena), file_(FileId::of(arena.fd())) {}

  const FileId& file() const { return file_; }
  // True if all pages are ordinary (ProcessMaps::ordinary) and not in malloc()'s heaps.
  // Milliseconds.
  bool may_take(const RemappedBuffer& buffer) const;
  // Copies the whole pages of the buffer to its block, and maps the block in their place.
  bool remap(const RemappedBuffer& buffer) const noexcept;
  // True if the block is still mapped there, page for page; half a microsecond for each mapping.
  bool in_place(const RemappedBuffer& buffer) const noexcept {
    return in_place(buffer, buffer.first, buffer.last);
  }
  bool in_place(const RemappedBuffer& buffer, uintptr_t from, uintptr_t to) const noexcept {
    return maps_.maps(from, to, file_, buffer.offset_of(from));
  }
  // Maps private pages with the same bytes wherever the block lies under [begin, end).
  bool make_private(const RemappedBuffer& buffer, uintptr_t begin, uintptr_t end) const noexcept;
  // The mappings of the arena's file in buffers.
  std::vector<Mapping> pieces() const;

 private:
  std::byte* fill(const RemappedBuffer& buffer) const noexcept;
  bool put_in_place(std::byte* pages, uintptr_t at, size_t bytes) const noexcept;

  Arena& arena_;
  const ProcessMaps maps_;
  const FileId file_;
};

}  // namespace ringwood

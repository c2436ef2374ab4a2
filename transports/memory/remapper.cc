#include "transports/memory/remapper.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "transports/base/log.h"
#include "transports/link_parts.h"
#include "transports/memory/malloc_memory.h"

namespace ringwood {
namespace {

std::byte* pointer(uintptr_t address) { return std::bit_cast<std::byte*>(address); }

}  // namespace

bool Remapper::may_take(const RemappedBuffer& buffer) const {
  if (of_a_threads_heap(buffer.first)) return false;
  return maps_.ordinary(buffer.first, buffer.last, file_);
}

bool Remapper::remap(const RemappedBuffer& buffer) const noexcept {
  std::byte* const pages = fill(buffer);
  return pages && put_in_place(pages, buffer.first, buffer.last - buffer.first);
}

// Maps the block's whole pages at a temporary address and copies the buffer's there. Null: no
// memory.
std::byte* Remapper::fill(const RemappedBuffer& buffer) const noexcept {
  const size_t bytes = buffer.last - buffer.first;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_.fd(),
                             static_cast<off_t>(buffer.offset_of(buffer.first)));
  if (pages == MAP_FAILED) return nullptr;
  ::madvise(pages, bytes, MADV_HUGEPAGE);
  // Without memory a write would end the process; this call fails instead.
  if (::madvise(pages, bytes, MADV_POPULATE_WRITE) != 0) {
    ::munmap(pages, bytes);
    return nullptr;
  }
  std::memcpy(pages, pointer(buffer.first), bytes);
  return static_cast<std::byte*>(pages);
}

// Moves pages over the mapping at `at`, which has the same contents, or else unmaps them. The page
// tables move too, so that no later access faults.
bool Remapper::put_in_place(std::byte* pages, uintptr_t at, size_t bytes) const noexcept {
  if (::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(at)) != MAP_FAILED)
    return true;
  // The kernel unmaps the destination before the last of its own allocations.
  if (!maps_.at(at) &&
      ::mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(at)) == MAP_FAILED) {
    log(LogLevel::error, "shm", system_message("a buffer is lost: mremap"));
    std::abort();
  }
  ::munmap(pages, bytes);
  return false;
}

bool Remapper::make_private(const RemappedBuffer& buffer, uintptr_t begin,
                            uintptr_t end) const noexcept {
  const RemappedBuffer part = RemappedBuffer::at(begin, end);
  const uintptr_t from = std::max(part.first, buffer.first), to = std::min(part.last, buffer.last);
  if (from >= to || !in_place(buffer, from, to)) return false;
  const size_t bytes = to - from;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) return false;
  copy_across(static_cast<std::byte*>(pages), pointer(from), bytes);
  return put_in_place(static_cast<std::byte*>(pages), from, bytes);
}

// The arena itself is mapped as a whole, here and, if ranks are threads, by its peers.
std::vector<Mapping> Remapper::pieces() const {
  std::vector<Mapping> found = maps_.shared_mappings_of(file_);
  std::erase_if(found, [&](const Mapping& m) { return m.end - m.begin == arena_.bytes(); });
  return found;
}

}  // namespace ringwood

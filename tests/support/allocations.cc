#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t count = 0, total = 0, refused_from = 0;
}

// Of the whole program, so that what the library asks for is counted. In a file of their own: a
// compiler that sees them takes the pair of new and free for a mistake. Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) {
  ++count;
  total += bytes;
  if (refused_from > 0 && bytes >= refused_from) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace ringwood::testing {
size_t allocations() noexcept { return count; }
size_t allocated_bytes() noexcept { return total; }
void refuse_allocations_from(size_t bytes) noexcept { refused_from = bytes; }
}  // namespace ringwood::testing

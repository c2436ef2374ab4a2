// How often the calling thread has asked for memory, and for how many bytes in all, in a program
// that has allocations.cc. Not counted where a sanitizer has its own allocation: 0.
#pragma once

#include <cstddef>

namespace ringwood::testing {

size_t allocations() noexcept;
size_t allocated_bytes() noexcept;
// The calling thread is refused this many bytes and more, with bad_alloc; 0: nothing.
void refuse_allocations_from(size_t bytes) noexcept;

}  // namespace ringwood::testing

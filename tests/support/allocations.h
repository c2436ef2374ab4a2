// How often the calling thread has asked for memory, and for how many bytes in all, in a program
// that has allocations.cc. Not counted where a sanitizer has its own allocation: 0.
#pragma once

#include <cstddef>

namespace ringwood::testing {

size_t allocations() noexcept;
size_t allocated_bytes() noexcept;

}  // namespace ringwood::testing

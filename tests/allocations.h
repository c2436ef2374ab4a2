// How often the calling thread has asked for memory, in a program that has allocations.cc.
#pragma once

#include <cstddef>

namespace ringwood::testing {

size_t allocations() noexcept;

}  // namespace ringwood::testing

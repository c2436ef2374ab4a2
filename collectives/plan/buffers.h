// The memory of an operation, as its user sees it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

// Plan::uses of these steps. Pure.
std::vector<BufferUse> uses_of(std::span<const BoundStep> steps);

// The bytes of the buffers from which an execution of the plan sends anything, also by way of its
// scratch; what lies end to end is one. Pure.
std::vector<std::span<const std::byte>> sent_memory(const Plan& plan,
                                                    std::span<void* const> buffers);

// std::memmove, for what will be read soon: in pieces, because the copy instruction writes a large
// block past the caches (measured: what a peer then reads comes five times slower).
void move_bytes(void* to, const void* from, size_t bytes);

// All of them, whatever is done with them.
std::vector<std::span<const std::byte>> memory(const Plan& plan, std::span<void* const> buffers);

}  // namespace ringwood

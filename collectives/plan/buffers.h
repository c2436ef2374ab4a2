// The memory of an operation, from the view of its user.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

// Plan::Memory::uses of these steps. Pure.
std::vector<BufferUse> uses_of(std::span<const BoundStep> steps);

// The bytes of the buffers from which an execution of the plan sends, also by way of its scratch;
// adjacent ranges are merged. Pure.
std::vector<std::span<const std::byte>> sent_memory(const Plan& plan,
                                                    std::span<void* const> buffers);

// Whether two places of so many bytes have some in common.
bool overlap(const void* a, const void* b, size_t bytes);

// std::memmove for data that is read soon. Copies in pieces, because the copy instruction writes a
// large block past the caches (measured: a peer then reads it five times slower).
void move_bytes(void* to, const void* from, size_t bytes);

// All bytes of the buffers, whatever is done with them.
std::vector<std::span<const std::byte>> memory(const Plan& plan, std::span<void* const> buffers);

}  // namespace ringwood

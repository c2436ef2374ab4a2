// The memory of one direction of a link at one end. A position is counted from the beginning of the
// link; modulo the ring's size it is a place in the ring, the same at both ends. Value type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood::verbs {

struct Ring {
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
  std::byte* at(uint64_t position) const { return memory + position % bytes; }
  // The number of contiguous bytes from there.
  uint64_t straight(uint64_t position) const { return bytes - position % bytes; }
};

}  // namespace ringwood::verbs

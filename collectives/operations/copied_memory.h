// Memory that a collective touches only by way of copies: CallOptions::copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ringwood {

// The copies are the buffers that the call is given. Both functions run in the driving thread, and
// have no effect on an operation that has failed by then.
struct CopiedMemory {
  struct Range {
    const void* data;
    size_t bytes;
  };
  // Orders the operation with others, as its buffers do.
  std::vector<Range> read, written;
  // Copies what is read, when the operation begins: after the earlier ones that write it.
  std::function<void()> fill;
  // Carries over what is written, before the operation is done and later ones on it begin.
  std::function<void()> finish;
  // Not 0: the call has one buffer, and its elements are those of `memory`, which lie there in one
  // run, but in this order (storage_order.h). Where all ranks say the same order, the call works on
  // `memory` instead of the copy, and neither function is called.
  uint32_t order = 0;
  void* memory = nullptr;
};

}  // namespace ringwood

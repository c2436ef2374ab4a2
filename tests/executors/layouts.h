// Where the elements of a tensor lie: dense tensors whose dimensions stand in another order in
// memory than their indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/operations/storage_order.h"

namespace ringwood::testing {

struct Layout {
  std::vector<int64_t> sizes, strides;

  // The dimensions from the outermost in memory to the innermost.
  static Layout of(std::vector<int64_t> sizes, const std::vector<size_t>& in_memory) {
    Layout layout{std::move(sizes), {}};
    layout.strides.resize(layout.sizes.size());
    int64_t stride = 1;
    for (size_t i = in_memory.size(); i-- > 0; stride *= layout.sizes[in_memory[i]])
      layout.strides[in_memory[i]] = stride;
    return layout;
  }
  size_t count() const {
    size_t elements = 1;
    for (const int64_t size : sizes) elements *= static_cast<size_t>(size);
    return elements;
  }
  // Of the element with that number, counted with the last index first.
  size_t place(size_t number) const {
    size_t at = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      const auto size = static_cast<size_t>(sizes[d]);
      at += number % size * static_cast<size_t>(strides[d]);
      number /= size;
    }
    return at;
  }
  uint32_t order() const { return storage_order(sizes, strides); }
};

// Three layouts of elements, the first in the order of the indices. `count` is a multiple of 60.
inline std::vector<Layout> layouts_of(size_t count) {
  const auto rest = static_cast<int64_t>(count / 60);
  return {Layout::of({rest, 3, 4, 5}, {0, 1, 2, 3}),  // contiguous
          Layout::of({rest, 3, 4, 5}, {0, 2, 3, 1}),  // channels_last
          Layout::of({60, rest}, {1, 0})};            // transposed
}

}  // namespace ringwood::testing

// The order in which the elements of a tensor lie in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transports/base/hash.h"

namespace ringwood {

// A hash of where the k-th element lies, for every k; elements are counted with the last index
// first. 0: the k-th place. Equal for tensors of any shapes whose elements lie in one order, and,
// but for chance, only for those.
//
// Precondition: the elements fill one run of memory, without gaps and each with a place of its own.
// `strides` are in elements. Pure.
inline uint32_t storage_order(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  // Without dimensions of one element, and with those joined that one stride steps through.
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // size, stride
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (!dimensions.empty() && dimensions.back().second == sizes[d] * strides[d]) {
      dimensions.back() = {dimensions.back().first * sizes[d], strides[d]};
      continue;
    }
    dimensions.emplace_back(sizes[d], strides[d]);
  }
  if (dimensions.size() < 2) return 0;
  const uint32_t hash = fnv1a(
      {reinterpret_cast<const char*>(dimensions.data()), dimensions.size() * sizeof dimensions[0]});
  return hash == 0 ? 1 : hash;
}

}  // namespace ringwood

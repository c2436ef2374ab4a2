// Outputs whose elements share memory: their values after a call would depend on the order of the
// writes.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "collectives/operations/copied_memory.h"

namespace ringwood {

using ByteRange = std::pair<const char*, const char*>;  // first byte, one past the last

// Precondition: not empty.
inline ByteRange byte_range(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const char* first = static_cast<const char*>(tensor.const_data_ptr());
  return {first, first + (last + 1) * static_cast<int64_t>(tensor.element_size())};
}

// Precondition: not empty.
inline CopiedMemory::Range memory_of(const at::Tensor& tensor) {
  const auto [first, end] = byte_range(tensor);
  return {first, static_cast<size_t>(end - first)};
}

// Whether two of its elements lie at one place, as in an expand()ed tensor. Exact.
inline bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.numel() < 2 || tensor.is_contiguous()) return false;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, size
  for (const auto d : c10::irange(tensor.dim()))
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  std::sort(dimensions.begin(), dimensions.end());
  int64_t last = 0;  // of the dimensions so far
  bool nested = true;
  for (const auto& [stride, size] : dimensions) {
    nested = nested && stride > last;
    last += stride * (size - 1);
  }
  if (nested) return false;
  // Strides that neither nest nor tell: look at every element.
  std::vector<bool> taken(static_cast<size_t>(last) + 1);
  std::vector<int64_t> offsets{0};
  for (const auto& [stride, size] : dimensions) {
    const size_t before = offsets.size();
    for (int64_t i = 1; i < size; ++i)
      for (size_t o = 0; o < before; ++o) offsets.push_back(offsets[o] + i * stride);
  }
  for (const int64_t offset : offsets) {
    if (taken[static_cast<size_t>(offset)]) return true;
    taken[static_cast<size_t>(offset)] = true;
  }
  return false;
}

inline bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

inline constexpr char kShareMemory[] = "share memory (is it expand()ed?): pass a clone() of it";

// What is wrong with these outputs, in words with a remedy; empty: nothing. One tensor may stand
// there several times, and ends as the last of them. Of outputs with gaps only those that overlap
// themselves are found: others may lie between each other's elements.
inline std::string shared_outputs(const std::vector<at::Tensor>& outputs) {
  std::vector<std::pair<ByteRange, size_t>> dense;
  for (const auto i : c10::irange(outputs.size())) {
    const at::Tensor& output = outputs[i];
    if (overlaps_itself(output)) {
      return c10::str("elements of output ", i, " ", kShareMemory);
    }
    if (output.numel() > 0 && output.is_non_overlapping_and_dense())
      dense.emplace_back(byte_range(output), i);
  }
  std::sort(dense.begin(), dense.end());
  for (size_t i = 1; i < dense.size(); ++i) {
    const size_t a = dense[i - 1].second, b = dense[i].second;
    if (dense[i].first.first >= dense[i - 1].first.second) continue;
    if (same_memory(outputs[a], outputs[b])) continue;
    return c10::str("outputs ", std::min(a, b), " and ", std::max(a, b),
                    " share memory: each needs its own");
  }
  return "";
}

}  // namespace ringwood

// What the splits and lists of a call mean, and which are refused.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "torch-bridge/call_checks.h"

namespace ringwood {

// Elements for each rank: rows of the first dimension, or equal parts if no splits are given. Even
// these go as blocks of any sizes, and not by the form of one size, which has more algorithms: all
// ranks must call the same form, and where one gives no splits another may give equal ones.
inline std::vector<size_t> split_counts(const CallChecks& call, const at::Tensor& tensor,
                                        const std::vector<int64_t>& splits, int size) {
  call.require(tensor.dim() > 0, "requires tensors of at least one dimension");
  const int64_t rows = tensor.size(0);
  const int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  if (splits.empty()) {
    call.require_here(rows % size == 0, "Tensor's dim 0 does not divide equally across group size");
    return std::vector<size_t>(static_cast<size_t>(size), static_cast<size_t>(rows / size * row));
  }
  call.require_here(splits.size() == static_cast<size_t>(size),
                    "Number of tensor splits not equal to group size");
  std::vector<size_t> counts;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    call.require_here(split >= 0, "negative split size");
    sum += split;
    counts.push_back(static_cast<size_t>(split * row));
  }
  call.require_here(sum == rows, "Split sizes doesn't match total dim 0 size");
  return counts;
}

// Consecutive pieces of a block; Byte is char or const char.
template <class Byte, class B>
std::vector<B> pieces(B whole, const std::vector<size_t>& counts, size_t element_bytes) {
  std::vector<B> blocks;
  auto* at = static_cast<Byte*>(whole.data);
  for (const size_t count : counts) {
    blocks.push_back({at, count});
    at += count * element_bytes;
  }
  return blocks;
}

// The root's list for a group of `size`, of tensors like `like`.
inline const std::vector<at::Tensor>& root_list(const CallChecks& call,
                                                const std::vector<std::vector<at::Tensor>>& lists,
                                                const at::Tensor& like, int size,
                                                const char* side) {
  if (lists.size() != 1) {
    call.refuse_here(c10::str("requires a single-element ", side, " list containing a list with ",
                              size, " tensors."));
  }
  const std::vector<at::Tensor>& list = lists[0];
  if (list.size() != static_cast<size_t>(size)) {
    call.refuse_here(c10::str("Incorrect ", side, " list size ", list.size(), ". ",
                              side == std::string("input") ? "In" : "Out",
                              "put list size should be ", size,
                              ", same as size of the process group."));
  }
  for (const auto i : c10::irange(list.size())) {
    call.placed(list[i]);
    call.same_type(like, list[i], i);
    call.same_size(like, list[i], i);
  }
  return list;
}

// An empty list of lists, or one that holds an empty list, is how ranks other than the root say
// "nothing".
inline bool nothing(const std::vector<std::vector<at::Tensor>>& lists) {
  return lists.empty() || (lists.size() == 1 && lists[0].empty());
}

}  // namespace ringwood

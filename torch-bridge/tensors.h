// From torch's tensors to the communicator's blocks: which tensors are read and written in place,
// and which go through a copy because their elements are not contiguous. call_checks.h says which
// tensors are accepted.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "torch-bridge/overlap.h"

namespace ringwood {

// The memory of a list of outputs.
class Ranges final {
 public:
  explicit Ranges(const std::vector<at::Tensor>& outputs) {
    ranges_.reserve(outputs.size());
    for (const at::Tensor& output : outputs) {
      if (output.numel() > 0) ranges_.push_back(byte_range(output));
    }
    std::sort(ranges_.begin(), ranges_.end());
    const auto meets_next = [](const ByteRange& a, const ByteRange& b) {
      return b.first < a.second;
    };
    disjoint_ = std::adjacent_find(ranges_.begin(), ranges_.end(), meets_next) == ranges_.end();
  }

  bool disjoint() const { return disjoint_; }
  // Whether the call may change `input` before it has been read. `in_place`: one output lies in it,
  // or it in that output, which does not count. Outputs that are not disjoint are filled when all
  // has been read.
  bool written_over(const at::Tensor& input, bool in_place = false) const {
    if (!disjoint_ || input.numel() == 0) return false;
    const ByteRange in = byte_range(input);
    const auto after = std::partition_point(
        ranges_.begin(), ranges_.end(), [&](const ByteRange& r) { return r.first < in.second; });
    const std::ptrdiff_t last = in_place ? 2 : 1;
    return after - ranges_.begin() >= last && std::prev(after, last)->second > in.first;
  }

 private:
  std::vector<ByteRange> ranges_;
  bool disjoint_ = true;
};

// The tensors of one call. Keeps them, and the copies, alive. Not thread safe.
class Tensors final {
 public:
  // The memory to read from. `apart`: from a copy, since the call writes over it.
  ConstBlock read(const at::Tensor& tensor, bool apart = false) {
    if (plain(tensor) && !apart) {
      inputs_.push_back(tensor);
      return {tensor.const_data_ptr(), count(tensor)};
    }
    inputs_.push_back(copy_of(tensor));
    return {inputs_.back().const_data_ptr(), count(tensor)};
  }
  // The memory to write to; finish() carries it over to a tensor that is not plain.
  Block write(const at::Tensor& tensor, bool apart = false) {
    outputs_.push_back(tensor);
    if (plain(tensor) && !apart) return {tensor.mutable_data_ptr(), count(tensor)};
    return stage(tensor, like(tensor));
  }
  // The memory of a tensor that is changed in place.
  Block update(const at::Tensor& tensor) {
    outputs_.push_back(tensor);
    if (plain(tensor)) return {tensor.mutable_data_ptr(), count(tensor)};
    return stage(tensor, copy_of(tensor));
  }
  // The memory for each of a list of outputs. If some share memory, all are filled at the end, one
  // after the other.
  std::vector<Block> write(const std::vector<at::Tensor>& tensors) {
    return write(tensors, !Ranges(tensors).disjoint());
  }
  std::vector<Block> write(const std::vector<at::Tensor>& tensors, bool apart) {
    std::vector<Block> blocks;
    blocks.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) blocks.push_back(write(tensor, apart));
    return blocks;
  }

  static bool overlap(const at::Tensor& a, const at::Tensor& b) {
    return Ranges({a}).written_over(b);
  }
  // Whether `part` is just the `index`-th of the equal blocks of `whole`: a call in place, which
  // needs no copy.
  static bool is_block(const at::Tensor& part, const at::Tensor& whole, int index) {
    const auto offset = index * part.numel() * static_cast<int64_t>(part.element_size());
    return plain(part) && plain(whole) &&
           static_cast<const char*>(whole.const_data_ptr()) + offset == part.const_data_ptr();
  }

  bool staged() const { return !staged_.empty(); }
  // When the data is there: fills the outputs that were staged.
  void finish() {
    if (staged_.empty()) return;
    // Allows to write to inference tensors, too, and to leaves that need gradients.
    const c10::InferenceMode any_tensor;
    for (auto& [tensor, copy] : staged_) tensor.copy_(copy);
    staged_.clear();
  }
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // For a call whose outputs are made from what is written here.
  void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  // What only had to live until the end. The caller's tensors may be Python objects that die here.
  std::vector<at::Tensor> take_inputs() { return std::exchange(inputs_, {}); }

 private:
  static size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }
  // Elements in order of their index, without a pending conjugation or negation.
  static bool plain(const at::Tensor& tensor) {
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
           !tensor._is_zerotensor();
  }
  static at::Tensor like(const at::Tensor& tensor) {
    const c10::InferenceMode no_history;
    return at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
  }
  static at::Tensor copy_of(const at::Tensor& tensor) {
    const c10::InferenceMode no_history;
    return like(tensor).copy_(tensor);
  }
  Block stage(const at::Tensor& tensor, at::Tensor copy) {
    staged_.emplace_back(tensor, std::move(copy));
    return {staged_.back().second.mutable_data_ptr(), count(tensor)};
  }

  std::vector<at::Tensor> inputs_, outputs_;
  std::vector<std::pair<at::Tensor, at::Tensor>> staged_;
};

}  // namespace ringwood

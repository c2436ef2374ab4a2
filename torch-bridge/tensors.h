// From torch's tensors to the communicator's blocks: which tensors are read and written in place,
// and which go through a copy because their elements are not contiguous, or lie in another order
// than on other ranks. call_checks.h says which tensors are accepted.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operations/copied_memory.h"
#include "collectives/operations/storage_order.h"
#include "torch-bridge/overlap.h"

namespace ringwood {

// The memory of a list of outputs. `parts`: of several operations, which are begun together and may
// end one after the other.
class Ranges final {
 public:
  explicit Ranges(const std::vector<at::Tensor>& outputs, bool parts = false) : parts_(parts) {
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
  // or it in that output, which does not count. Outputs that are not disjoint are filled when their
  // operation has read all, but others of its parts have perhaps not.
  bool written_over(const at::Tensor& input, bool in_place = false) const {
    if (input.numel() == 0) return false;
    const ByteRange in = byte_range(input);
    const auto meets = [&](const ByteRange& r) {
      return r.first < in.second && in.first < r.second;
    };
    if (!disjoint_) return parts_ && std::any_of(ranges_.begin(), ranges_.end(), meets);
    const auto after = std::partition_point(
        ranges_.begin(), ranges_.end(), [&](const ByteRange& r) { return r.first < in.second; });
    const std::ptrdiff_t last = in_place ? 2 : 1;
    return after - ranges_.begin() >= last && std::prev(after, last)->second > in.first;
  }

 private:
  const bool parts_;
  std::vector<ByteRange> ranges_;
  bool disjoint_ = true;
};

// What copies of tensors are made with, in whatever thread: nothing of the caller's modes sees it,
// and inference tensors may be written, too, and leaves that need gradients.
class BareCopying final {
  const c10::InferenceMode any_tensor_;
  const c10::impl::ExcludeDispatchKeyGuard no_python_{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

// The tensors of one call. Keeps them, and the copies, alive. Not thread safe.
//
// A copy is made when the operation begins, and carried over before it is done, in the driving
// thread: so calls on the same memory take effect in the order in which they are made
// (CallOptions::copied). On a device the stream of the call makes the copies, before the operation
// and behind it. Tensors may need Python's lock to die: what the operation has ends with this
// object, which never ends in that thread.
class Tensors final {
 public:
  Tensors() = default;
  Tensors(Tensors&&) = default;
  Tensors& operator=(Tensors&&) = default;
  ~Tensors() {
    for (const auto& pairs : copies_) *pairs = {};
  }

  // The memory to read from. `apart`: from a copy, since the call writes over it.
  ConstBlock read(const at::Tensor& tensor, bool apart = false) {
    if (plain(tensor) && !apart) {
      inputs_.push_back(tensor);
      return {tensor.const_data_ptr(), count(tensor)};
    }
    inputs_.push_back(filled(tensor));
    return {inputs_.back().const_data_ptr(), count(tensor)};
  }
  // The memory to write to, perhaps of a copy.
  Block write(const at::Tensor& tensor, bool apart = false) {
    outputs_.push_back(tensor);
    if (plain(tensor) && !apart) return {tensor.mutable_data_ptr(), count(tensor)};
    // A stream carries the copy over in any case: where the call has failed, what was there before.
    return carried_over(tensor.is_cpu() ? like(tensor) : filled(tensor), tensor);
  }
  // The memory of a tensor that is changed in place. A rank that only `reads` it, or only `writes`
  // it, copies one way. One whose elements fill their memory, as transposed ones and pictures in
  // channels_last do, needs no copy if that of the other ranks is in the same order.
  Block update(const at::Tensor& tensor, bool reads = true, bool writes = true) {
    outputs_.push_back(tensor);
    if (plain(tensor)) return {tensor.mutable_data_ptr(), count(tensor)};
    const uint32_t order = copied_ || !tensor.is_cpu() ? 0 : order_of(tensor);
    void* const memory = order != 0 ? tensor.mutable_data_ptr() : nullptr;
    at::Tensor copy = reads ? filled(tensor) : like(tensor);
    const Block block{copy.mutable_data_ptr(), count(tensor)};
    if (writes)
      carried_over(std::move(copy), tensor);
    else
      inputs_.push_back(std::move(copy));
    if (order == 0) return block;
    copied_->order = order;
    copied_->memory = memory;
    return block;
  }
  struct Part {
    Block block;
    std::shared_ptr<const CopiedMemory> copied;  // for the operation on it
  };
  // The memory of each of a list of tensors that several parts of a call change in place. If some
  // share memory, all are read before any is written, one after the other.
  std::vector<Part> update_parts(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> copies;
    if (!Ranges(tensors).disjoint())
      for (const at::Tensor& tensor : tensors) copies.push_back(filled(tensor));
    auto reading = take_copied();
    std::vector<Part> parts;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!copies.empty()) outputs_.push_back(tensors[i]);
      const Block block =
          copies.empty() ? update(tensors[i]) : carried_over(std::move(copies[i]), tensors[i]);
      parts.push_back({block, both(std::exchange(reading, nullptr), take_copied())});
    }
    return parts;
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

  // What has gone through copies since the last call of this: for the operation on that memory.
  // Null: nothing.
  std::shared_ptr<const CopiedMemory> take_copied() {
    auto copied = std::exchange(copied_, nullptr);
    if (!copied || !on_device_) return copied;
    by_stream_.push_back(std::move(copied));
    return nullptr;
  }
  // The stream of a call on a device.
  void on(c10::Stream stream) { stream_ = stream; }
  const std::optional<c10::Stream>& stream() const { return stream_; }
  // Precondition: it is on a device.
  bool on_current_stream() const {
    return c10::impl::VirtualGuardImpl(stream_->device_type()).getStream(stream_->device()) ==
           *stream_;
  }
  // The copies, with that stream current: before the operations, and behind them.
  void fill_by_stream() const {
    for (const auto& copied : by_stream_) copied->fill();
  }
  void finish_by_stream() const {
    for (const auto& copied : by_stream_) copied->finish();
    if (factor_ == 1) return;
    const BareCopying bare;
    std::set<const void*> seen;  // one tensor may stand several times in a list
    for (const at::Tensor& output : outputs_)
      if (seen.insert(output.const_data_ptr()).second) output.mul_(factor_);
  }
  // The outputs, at the end.
  void multiply_by_stream(double factor) { factor_ = factor; }
  // All that the call touches, some of it several times.
  template <class Visit>
  void each(Visit visit) const {
    for (const at::Tensor& tensor : inputs_) visit(tensor);
    for (const at::Tensor& tensor : outputs_) visit(tensor);
    for (const auto& pairs : copies_)
      for (const auto* way : {&pairs->in, &pairs->out})
        for (const auto& [to, from] : *way) {
          visit(to);
          visit(from);
        }
  }
  // Both for one operation. Of a call of several parts, whose inputs are all read before any part
  // writes, the first part's operation makes the copies: those of the others, which read them,
  // follow it.
  static std::shared_ptr<const CopiedMemory> both(
      const std::shared_ptr<const CopiedMemory>& reading,
      std::shared_ptr<const CopiedMemory> writing) {
    if (!reading || !writing) return reading ? reading : writing;
    auto all = std::make_shared<CopiedMemory>(*reading);
    all->written.insert(all->written.end(), writing->written.begin(), writing->written.end());
    all->finish = writing->finish;
    return all;
  }
  // Ends with the tensors.
  void own(std::shared_ptr<void> anything) { owned_.push_back(std::move(anything)); }
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // For a call whose outputs are made from what is written here.
  void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  // What only had to live until the end. The caller's tensors may be Python objects that die here.
  Tensors take_rest() {
    Tensors rest;
    rest.inputs_.swap(inputs_);
    rest.copies_.swap(copies_);
    rest.owned_.swap(owned_);
    return rest;
  }

 private:
  struct Copies {
    using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;  // to, from
    Pairs in, out;
  };
  static void make(const Copies::Pairs& pairs) {
    const BareCopying bare;
    for (const auto& [to, from] : pairs) to.copy_(from);
  }
  static size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }
  // Elements in order of their index, without a pending conjugation or negation.
  static bool plain(const at::Tensor& tensor) {
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
           !tensor._is_zerotensor();
  }
  // 0: that of the indices, or it has no such order.
  static uint32_t order_of(const at::Tensor& tensor) {
    if (tensor.numel() < 2 || tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor() ||
        !tensor.is_non_overlapping_and_dense())
      return 0;
    return storage_order(tensor.sizes(), tensor.strides());
  }
  static at::Tensor like(const at::Tensor& tensor) {
    const c10::InferenceMode no_history;
    return at::empty(tensor.sizes(),
                     at::TensorOptions().dtype(tensor.scalar_type()).device(tensor.device()));
  }
  // A copy that is made when the operation begins.
  at::Tensor filled(const at::Tensor& tensor) {
    at::Tensor copy = like(tensor);
    if (tensor.numel() == 0) return copy;
    if (tensor._is_zerotensor()) {  // has no memory
      make({{copy, tensor}});
      return copy;
    }
    note_copy(tensor);
    copies_.back()->in.emplace_back(copy, tensor);
    copied_->read.push_back(memory_of(tensor));
    copied_->written.push_back(memory_of(copy));
    return copy;
  }
  Block carried_over(at::Tensor copy, const at::Tensor& tensor) {
    const Block block{copy.mutable_data_ptr(), count(tensor)};
    if (tensor.numel() == 0) return block;
    note_copy(tensor);
    copied_->written.push_back(memory_of(tensor));
    copies_.back()->out.emplace_back(tensor, std::move(copy));
    return block;
  }
  void note_copy(const at::Tensor& tensor) {
    on_device_ = !tensor.is_cpu();
    if (copied_) {
      copied_->order = 0;  // of the one tensor before
      return;
    }
    auto pairs = std::make_shared<Copies>();
    copied_ = std::make_shared<CopiedMemory>();
    copied_->fill = [pairs] { make(pairs->in); };
    copied_->finish = [pairs] { make(pairs->out); };
    copies_.push_back(std::move(pairs));
  }

  std::vector<at::Tensor> inputs_, outputs_;
  std::vector<std::shared_ptr<Copies>> copies_;  // of each take_copied()
  std::shared_ptr<CopiedMemory> copied_;         // since the last
  bool on_device_ = false;
  std::optional<c10::Stream> stream_;
  std::vector<std::shared_ptr<const CopiedMemory>> by_stream_;
  double factor_ = 1;
  std::vector<std::shared_ptr<void>> owned_;
};

}  // namespace ringwood

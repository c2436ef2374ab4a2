// The sum of sparse (COO) tensors over ranks: all ranks gather everybody's indices and values, and
// add them up.
//
// The order of addition is the order of ranks, everywhere the same, so all ranks get the same bits.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <memory>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operations/copied_memory.h"
#include "torch-bridge/call_checks.h"
#include "torch-bridge/overlap.h"

namespace ringwood {

class SparseSum final {
 public:
  // `tensor` is summed in place.
  SparseSum(const at::Tensor& tensor, int size)
      : target_(tensor),
        size_(size),
        shape_(at::zeros({kShape}, at::kLong)),
        shapes_(at::zeros({size, kShape}, at::kLong)) {}
  static constexpr int64_t kMaxDimensions = 29;

  // For the operation that gathers all shapes: what it reads of the tensor, as it is then.
  // Precondition: this outlives the operation.
  std::shared_ptr<const CopiedMemory> reading() {
    auto copied = std::make_shared<CopiedMemory>();
    copied->read = {the_tensor()};
    for (const at::Tensor& part : {target_._indices(), target_._values()})
      if (part.numel() > 0) copied->read.push_back(memory_of(part));
    copied->fill = [this] { read(); };
    return copied;
  }
  // For the `operations` that gather the elements: the last to end sums them up.
  static std::shared_ptr<const CopiedMemory> writing(const std::shared_ptr<SparseSum>& sum,
                                                     int operations) {
    auto copied = std::make_shared<CopiedMemory>();
    copied->written = {sum->the_tensor()};
    copied->finish = [held = std::weak_ptr(sum), left = operations]() mutable {
      if (const auto sum = held.lock(); --left == 0 && sum) sum->finish();
    };
    return copied;
  }
  ConstBlock shape() const { return {shape_.const_data_ptr(), kShape}; }
  void* shapes() { return shapes_.mutable_data_ptr(); }

  // Once all shapes are here: memory for everybody's elements. Throws if ranks disagree on anything
  // but their number.
  void allocate(const CallChecks& call) {
    for (const auto rank : c10::irange(size_)) {
      const at::Tensor theirs = shapes_[rank];
      if (!theirs.slice(0, 1).equal(shape_.slice(0, 1))) {
        call.refuse(c10::str("Sizes do not match across processes: rank ", rank,
                             " has a sparse tensor of another "
                             "shape, or with other sparse dimensions"));
      }
      const int64_t elements = theirs[0].item<int64_t>();
      std::vector<int64_t> sizes = values_.sizes().vec();
      sizes[0] = elements;
      all_indices_.push_back(at::empty({indices_.size(0), elements}, indices_.options()));
      all_values_.push_back(at::empty(sizes, values_.options()));
    }
  }

  const at::Tensor& indices() const { return indices_; }
  const at::Tensor& values() const { return values_; }
  const std::vector<at::Tensor>& all_indices() const { return all_indices_; }
  const std::vector<at::Tensor>& all_values() const { return all_values_; }

 private:
  static constexpr int64_t kShape = 3 + kMaxDimensions;
  void read() {
    const at::NoGradGuard no_history;
    const at::Tensor mine = target_.coalesce();
    indices_ = mine.indices().contiguous();
    values_ = mine.values().contiguous();
    int64_t* shape = shape_.mutable_data_ptr<int64_t>();
    shape[0] = indices_.size(1);
    shape[1] = target_.sparse_dim();
    shape[2] = target_.dense_dim();
    for (const auto d : c10::irange(target_.dim())) shape[3 + d] = target_.size(d);
  }
  void finish() {
    const at::NoGradGuard no_history;
    target_.copy_(
        at::sparse_coo_tensor(at::cat(all_indices_, 1), at::cat(all_values_, 0), target_.sizes())
            .coalesce());
  }
  // Its memory is another one after each sum: stands for the tensor itself.
  CopiedMemory::Range the_tensor() const { return {target_.unsafeGetTensorImpl(), 1}; }

  at::Tensor target_;
  int64_t size_;
  at::Tensor indices_, values_, shape_, shapes_;
  std::vector<at::Tensor> all_indices_, all_values_;
};

}  // namespace ringwood

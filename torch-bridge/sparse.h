// The sum of sparse (COO) tensors over ranks: all ranks gather everybody's indices and values, and
// add them up.
//
// The order of addition is the order of ranks, everywhere the same, so all ranks get the same bits.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <utility>
#include <vector>

#include "torch-bridge/call_checks.h"

namespace ringwood {

class SparseSum final {
 public:
  // `tensor` is summed in place by finish().
  SparseSum(const at::Tensor& tensor, int size) : target_(tensor), size_(size) {
    const at::NoGradGuard no_history;
    const at::Tensor mine = tensor.coalesce();
    indices_ = mine.indices().contiguous();
    values_ = mine.values().contiguous();
    shape_ = at::zeros({kShape}, at::kLong);
    int64_t* shape = shape_.mutable_data_ptr<int64_t>();
    shape[0] = indices_.size(1);
    shape[1] = tensor.sparse_dim();
    shape[2] = tensor.dense_dim();
    for (const auto d : c10::irange(tensor.dim())) shape[3 + d] = tensor.size(d);
    shapes_ = at::zeros({size, kShape}, at::kLong);
  }
  static constexpr int64_t kMaxDimensions = 29;

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

  void finish() {
    const at::NoGradGuard no_history;
    target_.copy_(
        at::sparse_coo_tensor(at::cat(all_indices_, 1), at::cat(all_values_, 0), target_.sizes())
            .coalesce());
  }

 private:
  static constexpr int64_t kShape = 3 + kMaxDimensions;
  at::Tensor target_;
  int64_t size_;
  at::Tensor indices_, values_, shape_, shapes_;
  std::vector<at::Tensor> all_indices_, all_values_;
};

}  // namespace ringwood

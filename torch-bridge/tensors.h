// From torch's tensors to the communicator's blocks: what is refused (in the words torch users
// know), what is read and written in place, and what goes through a copy because its memory is not
// one plain run of elements.
//
// Everything is checked before anything is sent: a call that throws has changed nothing.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/StringUtil.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "torch-bridge/overlap.h"

namespace ringwood {

// How a call reduces.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
  DataType type = DataType::float32;
};

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
  // `method` is the name that appears in errors, `note` is appended to them.
  Tensors(const char* method, std::shared_ptr<const std::string> note)
      : method_(method), note_(std::move(note)) {}

  [[noreturn]] void refuse(const std::string& message) const {
    TORCH_CHECK(false, "ProcessGroupRingwood::", method_, ": ", message, note());
  }
  const std::string& note() const { return *note_; }
  const char* method() const { return method_; }
  void require(bool condition, const char* message) const {
    if (!condition) refuse(message);
  }

  const at::Tensor& single(const std::vector<at::Tensor>& tensors) const {
    if (tensors.empty()) refuse("requires non-empty tensor list");
    if (tensors.size() != 1) refuse("requires a single-element tensor list");
    return tensors[0];
  }
  void root(int64_t rank, int size) const {
    if (rank < 0 || rank >= size) refuse("invalid root rank: " + std::to_string(rank));
  }
  void peer(int rank, int size) const {
    if (rank < 0 || rank >= size) {
      refuse("invalid peer rank " + std::to_string(rank) + " in a group of " +
             std::to_string(size));
    }
  }

  // A tensor that the caller must give in one run: inputs, and what is changed in place.
  void dense(const at::Tensor& tensor) const {
    placed(tensor);
    TORCH_CHECK_VALUE(tensor.is_contiguous(tensor.suggest_memory_format()),
                      "ProcessGroupRingwood::", method_, ": Tensors must be contiguous", note());
  }
  // A tensor of a list of outputs, which may have any strides that do not overlap.
  void placed(const at::Tensor& tensor) const {
    if (tensor.layout() != at::kStrided || tensor.is_quantized())
      refuse("only supports dense tensors");
    if (tensor.device().type() != at::kCPU)
      refuse(c10::str("unsupported device type ", tensor.device().type()));
  }
  void same_type(const at::Tensor& expected, const at::Tensor& tensor, size_t index) const {
    if (expected.scalar_type() == tensor.scalar_type()) return;
    refuse(c10::str("invalid tensor type at index ", index, " (expected ", expected.scalar_type(),
                    ", got ", tensor.scalar_type(), ")"));
  }
  void same_size(const at::Tensor& expected, const at::Tensor& tensor, size_t index) const {
    if (expected.sizes() != tensor.sizes()) wrong_size(expected, tensor, index);
  }
  [[noreturn]] void wrong_size(const at::Tensor& expected, const at::Tensor& tensor,
                               size_t index) const {
    refuse(c10::str("invalid tensor size at index ", index, " (expected (",
                    c10::Join(", ", expected.sizes()), "), got (", c10::Join(", ", tensor.sizes()),
                    "))"));
  }

  // For calls that only move data: any type, as the bits it has.
  DataType moved(const at::Tensor& tensor) const;
  // For calls that reduce; throws if this type has no such operation.
  Reduction reduced(const at::Tensor& tensor, const c10d::ReduceOp& op) const;

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

  const char* method_;
  std::shared_ptr<const std::string> note_;
  std::vector<at::Tensor> inputs_, outputs_;
  std::vector<std::pair<at::Tensor, at::Tensor>> staged_;
};

inline std::optional<DataType> exact_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return DataType::float64;
    case at::kFloat: return DataType::float32;
    case at::kHalf: return DataType::float16;
    case at::kBFloat16: return DataType::bfloat16;
    case at::kFloat8_e4m3fn: return DataType::float8_e4m3;
    case at::kFloat8_e5m2: return DataType::float8_e5m2;
    case at::kChar: return DataType::int8;
    case at::kShort: return DataType::int16;
    case at::kInt: return DataType::int32;
    case at::kLong: return DataType::int64;
    case at::kByte: return DataType::uint8;
    case at::kBool: return DataType::bool8;
    case at::kComplexFloat: return DataType::complex64;
    case at::kComplexDouble: return DataType::complex128;
    default: return std::nullopt;
  }
}

inline DataType Tensors::moved(const at::Tensor& tensor) const {
  if (auto type = exact_type(tensor.scalar_type())) return *type;
  switch (tensor.element_size()) {
    case 1: return DataType::uint8;
    case 2: return DataType::int16;
    case 4: return DataType::int32;
    case 8: return DataType::int64;
    default: refuse(c10::str("invalid scalar type ", tensor.scalar_type()));
  }
}

inline Reduction Tensors::reduced(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  const auto type = exact_type(tensor.scalar_type());
  if (!type)
    refuse(c10::str("invalid scalar type ", tensor.scalar_type(), ": it cannot be reduced"));
  Reduction how{.type = *type};
  const bool integral = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  const auto bitwise = [&](ReduceOp ours, const char* name) {
    if (!integral) refuse(c10::str("Cannot use ReduceOp.", name, " with non-integral dtype"));
    return ours;
  };
  switch (op.op_) {
    case c10d::ReduceOp::SUM: how.op = ReduceOp::sum; break;
    case c10d::ReduceOp::AVG: how.op = ReduceOp::avg; break;
    case c10d::ReduceOp::PRODUCT: how.op = ReduceOp::product; break;
    case c10d::ReduceOp::MIN: how.op = ReduceOp::min; break;
    case c10d::ReduceOp::MAX: how.op = ReduceOp::max; break;
    case c10d::ReduceOp::BAND: how.op = bitwise(ReduceOp::band, "BAND"); break;
    case c10d::ReduceOp::BOR: how.op = bitwise(ReduceOp::bor, "BOR"); break;
    case c10d::ReduceOp::BXOR: how.op = bitwise(ReduceOp::bxor, "BXOR"); break;
    case c10d::ReduceOp::PREMUL_SUM: {
      how.op = ReduceOp::premul_sum;
      auto* with = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      require(with != nullptr,
              "PREMUL_SUM needs a factor: make it with torch.distributed._make_nccl_premul_sum");
      how.factor =
          with->tensor_factor.defined() ? with->tensor_factor.item<double>() : with->double_factor;
      break;
    }
    default: refuse("Unhandled ReduceOp");
  }
  if (!supports(how.type, how.op)) {
    refuse(c10::str("Cannot use ReduceOp.", c10::str(to_string(how.op)), " with ",
                    tensor.scalar_type(), " tensors"));
  }
  return how;
}

}  // namespace ringwood

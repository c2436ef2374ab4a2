// Which calls on torch's tensors are refused, in the words that torch's users know, and torch's
// types and operations as ours.
//
// Everything is checked before anything is sent: a call that throws has changed nothing here.
//
// What is wrong with the form of a call (how many tensors, device, type, operation, root) is wrong
// on every rank that makes the same call: the group goes on. What is wrong with how this rank's
// tensors fit each other (lists, sizes, splits, shared memory) may be wrong on this rank only: the
// others have perhaps begun, and would wait until the timeout. That ends the group, with the
// reason (refuse_here()).
#pragma once

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/kernels/types.h"
#include "torch-bridge/live_backend.h"
#include "torch-bridge/overlap.h"

namespace ringwood {

// How a call reduces.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
  DataType type = DataType::float32;
};

// The checks of one call of `backend`. `method` is the name that appears in errors.
class CallChecks final {
 public:
  CallChecks(const char* method, LiveBackend& backend) : method_(method), backend_(backend) {}

  [[noreturn]] void refuse(const std::string& message) const { fail<c10::Error>(message); }
  void require(bool condition, const char* message) const {
    if (!condition) refuse(message);
  }
  // Also aborts the group.
  template <class Exception = c10::Error>
  [[noreturn]] void refuse_here(const std::string& message) const {
    backend_.abort_with(c10::str(method_, " was refused on this rank: ", message));
    fail<Exception>(message);
  }
  void require_here(bool condition, const char* message) const {
    if (!condition) refuse_here(message);
  }

  const at::Tensor& single(const std::vector<at::Tensor>& tensors) const {
    if (tensors.empty()) refuse("requires non-empty tensor list");
    if (tensors.size() != 1) refuse("requires a single-element tensor list");
    return tensors[0];
  }
  void root(int64_t rank, int size) const {
    if (rank < 0 || rank >= size) refuse("invalid root rank: " + std::to_string(rank));
  }
  // Of calls that take a list of tensors, which has one.
  void root_tensor(int64_t index) const {
    if (index != 0) refuse("invalid root tensor: " + std::to_string(index));
  }
  void peer(int rank, int size) const {
    if (rank < 0 || rank >= size) {
      refuse("invalid peer rank " + std::to_string(rank) + " in a group of " +
             std::to_string(size));
    }
  }

  // A tensor that is read: any strides, where the first of the call is.
  void placed(const at::Tensor& tensor) const {
    if (tensor.layout() != at::kStrided || tensor.is_quantized())
      refuse("only supports dense tensors");
    const c10::Device device = supported(tensor.device());
    if (!device_) device_ = device;
    if (device != *device_)
      refuse(c10::str("tensors on ", *device_, " and on ", device, ": a call is on one device"));
  }
  // Where the tensors of the call are.
  c10::Device device() const { return device_.value_or(c10::Device(at::kCPU)); }
  // A tensor that is written to: any strides that put no two elements at one place.
  void written(const at::Tensor& tensor) const {
    placed(tensor);
    if (overlaps_itself(tensor)) refuse_here(c10::str("elements of the tensor ", kShareMemory));
  }
  void same_type(const at::Tensor& expected, const at::Tensor& tensor, size_t index) const {
    if (expected.scalar_type() == tensor.scalar_type()) return;
    refuse_here(c10::str("invalid tensor type at index ", index, " (expected ",
                         expected.scalar_type(), ", got ", tensor.scalar_type(), ")"));
  }
  void same_size(const at::Tensor& expected, const at::Tensor& tensor, size_t index) const {
    if (expected.sizes() != tensor.sizes()) wrong_size(expected, tensor, index);
  }
  [[noreturn]] void wrong_size(const at::Tensor& expected, const at::Tensor& tensor,
                               size_t index) const {
    refuse_here(c10::str("invalid tensor size at index ", index, " (expected (",
                         c10::Join(", ", expected.sizes()), "), got (",
                         c10::Join(", ", tensor.sizes()), "))"));
  }
  // `whole` has a block like `part` for each of `size` ranks.
  void blocks(const at::Tensor& whole, const at::Tensor& part, int size, const char* other_type,
              const char* other_size) const {
    if (whole.scalar_type() != part.scalar_type()) refuse_here<c10::TypeError>(other_type);
    if (whole.numel() != part.numel() * size) refuse_here<c10::ValueError>(other_size);
  }
  // Outputs that share no memory, but one may stand there several times (overlap.h).
  void distinct(const std::vector<at::Tensor>& outputs) const {
    const std::string wrong = shared_outputs(outputs);
    if (!wrong.empty()) refuse_here(wrong);
  }

  // For calls that only move data: any type, as the bits it has.
  DataType moved(const at::Tensor& tensor) const;
  // For calls that reduce; throws if this type has no such operation.
  Reduction reduced(const at::Tensor& tensor, const c10d::ReduceOp& op) const;

 private:
  // Devices whose streams and memory are those of NVIDIA's driver, as the communicator will find:
  // CUDA's, and such as programs bring along.
  c10::Device supported(c10::Device device) const {
    if (!device.is_cpu() && !device.is_cuda() && !device.is_privateuseone())
      refuse(c10::str("unsupported device type ", device.type(), ": move the tensors to the CPU"));
    return device;
  }
  template <class Exception>
  [[noreturn]] void fail(const std::string& message) const {
    throw Exception({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                    c10::str("ProcessGroupRingwood::", method_, ": ", message, *backend_.note()));
  }

  const char* method_;
  LiveBackend& backend_;
  mutable std::optional<c10::Device> device_;  // of the first tensor
};

// By DataType.
inline constexpr at::ScalarType kTorchTypes[kDataTypes] = {
    at::kDouble,      at::kFloat, at::kHalf,         at::kBFloat16,      at::kFloat8_e4m3fn,
    at::kFloat8_e5m2, at::kChar,  at::kShort,        at::kInt,           at::kLong,
    at::kByte,        at::kBool,  at::kComplexFloat, at::kComplexDouble, at::kUInt32};

inline std::optional<DataType> exact_type(at::ScalarType type) {
  for (const TypeTraits& row : kTypeTraits)
    if (kTorchTypes[static_cast<size_t>(row.type)] == type) return row.type;
  return std::nullopt;
}

inline DataType CallChecks::moved(const at::Tensor& tensor) const {
  if (auto type = exact_type(tensor.scalar_type())) return *type;
  switch (tensor.element_size()) {
    case 1: return DataType::uint8;
    case 2: return DataType::int16;
    case 4: return DataType::int32;
    case 8: return DataType::int64;
    default: refuse(c10::str("invalid scalar type ", tensor.scalar_type()));
  }
}

inline Reduction CallChecks::reduced(const at::Tensor& tensor, const c10d::ReduceOp& op) const {
  const auto type = exact_type(tensor.scalar_type());
  if (!type)
    refuse(c10::str("invalid scalar type ", tensor.scalar_type(), ": it cannot be reduced"));
  Reduction how{.type = *type};
  const auto bitwise = [&](ReduceOp ours, const char* name) {
    if (!supports(*type, ours))
      refuse(c10::str("Cannot use ReduceOp.", name, " with non-integral dtype"));
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

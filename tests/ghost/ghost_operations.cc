// The few operations that a device must have; all others are carried out by the CPU, on copies.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <memory>
#include <optional>

#include "tests/ghost/ghost_driver.h"
#include "tests/ghost/ghost_memory.h"

namespace ghost {
namespace {

namespace cuda = ringwood::cuda;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);
using Type = std::optional<c10::ScalarType>;
using Layout = std::optional<c10::Layout>;
using On = std::optional<c10::Device>;
using Pinned = std::optional<bool>;
using Format = std::optional<c10::MemoryFormat>;

at::Tensor empty(c10::IntArrayRef size, Type type, Layout, On on, Pinned, Format format) {
  const c10::OptionalDeviceGuard guard(on);
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(type), format);
}
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, Type type, Layout, On on,
                         Pinned) {
  const c10::OptionalDeviceGuard guard(on);
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           c10::dtype_or_default(type));
}

CUdeviceptr address(const at::Tensor& tensor) {
  return reinterpret_cast<CUdeviceptr>(tensor.data_ptr());
}
at::Tensor seen_by_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const at::Tensor plain = at::from_blob(on_host(tensor.data_ptr()), tensor.sizes(),
                                         tensor.strides(), tensor.options().device(at::kCPU));
  const at::Tensor right = tensor.is_conj() ? plain.conj() : plain;
  return tensor.is_neg() ? right._neg_view() : right;
}

// To be carried out by the stream, as a kernel would be: the tensors' memory is not held.
void copy_by_stream(const at::Tensor& to, const at::Tensor& from) {
  struct Copy {
    at::Tensor to, from;
  };
  const cuda::Device& on = device(to.device().index());
  const cuda::CurrentContext context(on);
  auto copy = std::make_unique<Copy>(Copy{seen_by_host(to), seen_by_host(from)});
  const auto make = [](void* data) {
    const std::unique_ptr<Copy> made(static_cast<Copy*>(data));
    const c10::InferenceMode any_tensor;
    made->to.copy_(made->from);
  };
  on.require(driver().stream.host_function(current(on.ordinal()).get(), make, copy.get()),
             "cuLaunchHostFunc");
  (void)copy.release();
}

// On a device in the order of the stream; with the host when the stream has come so far.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  const bool plain = self.is_contiguous() && to.is_contiguous() && self.sizes() == to.sizes() &&
                     self.scalar_type() == to.scalar_type() && self.device() == to.device() &&
                     self.is_conj() == to.is_conj() && self.is_neg() == to.is_neg();
  if (self.numel() == 0) return to;
  if (plain) {
    const cuda::Device& on = device(self.device().index());
    const cuda::CurrentContext context(on);
    on.require(driver().memory.copy_within_device(address(to), address(self), self.nbytes(),
                                                  current(on.ordinal()).get()),
               "cuMemcpyDtoDAsync");
    return to;
  }
  if (!self.is_cpu() && self.device() == to.device()) {
    copy_by_stream(to, self);
    return to;
  }
  for (const at::Tensor* tensor : {&self, &to})
    if (!tensor->is_cpu()) current(tensor->device().index()).synchronize();
  seen_by_host(to).copy_(seen_by_host(self));
  return to;
}
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sizes, Format) {
  const auto size = C10_AS_INTARRAYREF_SLOW(sizes);
  const size_t bytes =
      static_cast<size_t>(c10::multiply_integers(size) + self.storage_offset()) * self.itemsize();
  if (bytes > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) resize(to, self.sym_sizes(), std::nullopt);
  return copy_from(self, to, false);
}
at::Scalar local_scalar(const at::Tensor& self) { return self.to(at::kCPU).item(); }

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  const auto at = offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt;
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), at);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset.expect_int());
  if (stride.empty())
    impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  else
    impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
  return self;
}
at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const c10::SymInt count(static_cast<int64_t>(source.nbytes() / self.itemsize()));
  return set_storage(self, std::move(source), 0, {count}, {});
}
void record_stream(at::Tensor& self, c10::Stream on) {
  allocator().recordStream(self.storage().data_ptr(), on);
}
void by_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("resize_", resize);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("unfold", &at::native::unfold);
  m.impl("record_stream", record_stream);
}
// copy_from() sees to pending conjugations and negations itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace
}  // namespace ghost

// The few operations that a device must have; all others are carried out by the CPU, on copies.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

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
// The double's memory is the host's, too.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

// Between devices in the order of the stream; with the host, and where elements have to be put in
// another order, when the stream has come so far.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  const bool plain = self.is_contiguous() && to.is_contiguous() && self.sizes() == to.sizes() &&
                     self.scalar_type() == to.scalar_type() && self.device() == to.device();
  if (self.numel() == 0) return to;
  if (plain) {
    const cuda::Device& on = device(self.device().index());
    const cuda::CurrentContext context(on);
    on.require(driver().memory.copy(address(to), address(self), self.nbytes(),
                                    current(on.ordinal()).get()),
               "cuMemcpyAsync");
    return to;
  }
  for (const at::Tensor* tensor : {&self, &to})
    if (!tensor->is_cpu()) current(tensor->device().index()).synchronize();
  on_host(to).copy_(on_host(self));
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
  m.impl("record_stream", record_stream);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace
}  // namespace ghost

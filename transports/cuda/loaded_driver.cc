#include "transports/cuda/loaded_driver.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "transports/base/fork_guard.h"
#include "transports/cuda/driver.h"

namespace ringwood::cuda {
namespace {

using Attributes = decltype(MemoryCalls::pointer_attributes);
std::atomic<Attributes> attributes{nullptr};
std::atomic<int> seen_by{0};  // the process

}  // namespace

std::atomic<bool> LoadedDriver::known_{false};

void LoadedDriver::look(const std::string& library) noexcept {
  if (known()) return;
  const char* const name = library.empty() ? "libcuda.so.1" : library.c_str();
  void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return;
  // The handle is kept: whoever has loaded it could unload it.
  attributes = reinterpret_cast<Attributes>(::dlsym(handle, "cuPointerGetAttributes"));
  seen_by = current_pid();
  known_ = attributes.load() != nullptr;
}

int LoadedDriver::device_of(const void* address) noexcept {
  if (!address || forked_since(seen_by)) return -1;
  unsigned kind = 0, managed = 0;
  int ordinal = -1;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&kind, &managed, &ordinal};
  const CUresult code =
      attributes.load()(3, asked, answers, reinterpret_cast<CUdeviceptr>(address));
  const bool of_device = code == CUDA_SUCCESS && kind == CU_MEMORYTYPE_DEVICE && managed == 0;
  return of_device ? ordinal : -1;
}

void LoadedDriver::refuse(const char* what, std::span<void* const> buffers) {
  for (const void* buffer : buffers)
    if (const int device = device_of(buffer); device >= 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: a buffer is memory of device {}, and the call is for memory of "
                              "the host: name the device and its stream in CallOptions::on",
                              what, device));
}

}  // namespace ringwood::cuda

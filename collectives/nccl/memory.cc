#include "collectives/nccl/memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "collectives/nccl/errors.h"
#include "transports/cuda/check.h"
#include "transports/cuda/memory.h"

namespace ringwood::nccl {
namespace {

constexpr size_t kPage = 4096;

struct Devices {
  std::mutex mutex;
  std::map<int, std::unique_ptr<const cuda::Device>> devices;
  // Of ncclMemAlloc(). Null: of the CPU.
  std::map<void*, std::unique_ptr<cuda::DeviceArena>> allocations;
};
// Never destroyed: the driver may be gone by then.
Devices& devices() {
  static auto* const all = new Devices;
  return *all;
}

}  // namespace

const cuda::Driver* driver_in_use() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return nullptr;
  ::dlclose(library);  // it was counted once more
  auto loaded = cuda::load();
  return loaded ? *loaded : nullptr;
}

namespace {

// call() in the context of this thread, else in that of the device.
template <class Call>
cuda::CUresult in_some_context(int usual, Call call) {
  const cuda::CUresult code = call();
  if (code != cuda::CUDA_ERROR_INVALID_CONTEXT) return code;
  const cuda::CurrentContext current(device_in_use(usual));
  return call();
}

}  // namespace

std::optional<int> gpu_of(const void* data, int usual) {
  const cuda::Driver* const driver = driver_in_use();
  if (!driver || !data) return std::nullopt;
  const auto at = reinterpret_cast<cuda::CUdeviceptr>(data);
  const auto ask = [&](void* value, cuda::CUpointer_attribute attribute) {
    return in_some_context(usual,
                           [&] { return driver->memory.pointer_attribute(value, attribute, at); });
  };
  unsigned kind = 0;
  if (ask(&kind, cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE) != cuda::CUDA_SUCCESS ||
      kind != cuda::CU_MEMORYTYPE_DEVICE)
    return std::nullopt;
  int ordinal = 0;
  if (ask(&ordinal, cuda::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) != cuda::CUDA_SUCCESS)
    return std::nullopt;
  return ordinal;
}

void synchronize(cuda::CUstream stream, int usual) {
  const cuda::Driver* const driver = driver_in_use();
  if (!driver || !stream) return;
  const cuda::CUresult code =
      in_some_context(usual, [&] { return driver->stream.synchronize(stream); });
  cuda::require(*driver, code, "cuStreamSynchronize");
}

const cuda::Device& device_in_use(int ordinal) {
  const cuda::Driver* const driver = driver_in_use();
  if (!driver) refuse_to_use("this process does not use CUDA");
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  auto& device = all.devices[ordinal];
  if (!device) device = std::make_unique<cuda::Device>(*driver, ordinal);
  return *device;
}

std::optional<int> current_gpu() {
  const cuda::Driver* const driver = driver_in_use();
  cuda::CUdevice device = 0;
  if (!driver || driver->context.get_device(&device) != cuda::CUDA_SUCCESS) return std::nullopt;
  return device;
}

}  // namespace ringwood::nccl

using ringwood::nccl::guarded;

extern "C" {

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return guarded([&] {
    using namespace ringwood::nccl;
    if (!ptr) refuse("ncclMemAlloc: the place for the pointer is null");
    const size_t bytes = std::max<size_t>(size, 1);
    std::unique_ptr<ringwood::cuda::DeviceArena> arena;
    void* data = nullptr;
    if (const std::optional<int> gpu = current_gpu()) {
      arena = std::make_unique<ringwood::cuda::DeviceArena>(device_in_use(*gpu), bytes);
      data = reinterpret_cast<void*>(arena->base());
    } else {
      data = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
      if (!data) throw std::bad_alloc();
    }
    const std::lock_guard lock(devices().mutex);
    devices().allocations[data] = std::move(arena);
    *ptr = data;
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  return guarded([&] {
    if (!ptr) return;
    auto& all = ringwood::nccl::devices();
    const std::lock_guard lock(all.mutex);
    const auto at = all.allocations.find(ptr);
    if (at == all.allocations.end())
      ringwood::nccl::refuse("ncclMemFree: the pointer is not one of ncclMemAlloc()");
    if (!at->second) std::free(ptr);
    all.allocations.erase(at);
  });
}

}  // extern "C"

RINGWOOD_NCCL_TWIN(ncclMemAlloc);
RINGWOOD_NCCL_TWIN(ncclMemFree);

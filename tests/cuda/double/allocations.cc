// cuMemAlloc, pinned host memory, and what is asked of a pointer.
#include <cstdlib>
#include <cstring>

#include "tests/cuda/double/captures.h"
#include "tests/cuda/double/memory.h"

using namespace fake_cuda;

namespace {

constexpr size_t kPage = 4096;

// What is known of an address; null: nothing.
struct Found {
  const Mapped* mapped = nullptr;
  const Pinned* pinned = nullptr;
  CUdeviceptr base = 0;
  size_t bytes() const { return mapped ? mapped->asked_for : pinned->bytes; }
  explicit operator bool() const { return mapped || pinned; }
};

Found find(Tables& all, CUdeviceptr address) {
  Found found;
  if (const auto at = mapping_at(all, address); at != all.mapped.end()) {
    found.mapped = &at->second;
    found.base = at->first;
  } else if (const auto host = containing(all.pinned, address, [](auto& p) { return p.bytes; });
             host != all.pinned.end()) {
    found.pinned = &host->second;
    found.base = host->first;
  }
  return found;
}

int ordinal_of(const Found& found) {
  if (found.pinned) return found.pinned->context->device;
  for (size_t i = 0; i < visible_devices().size(); ++i)
    if (visible_devices()[i] == found.mapped->pages->physical_device()) return static_cast<int>(i);
  return -1;
}

template <class T>
CUresult put(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult tell(void* to, CUpointer_attribute attribute, const Found& found, CUdeviceptr address) {
  const bool device = found.mapped != nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put<CUcontext>(to, device ? nullptr : found.pinned->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(to, device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put<CUdeviceptr>(to, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (device) return CUDA_ERROR_INVALID_VALUE;
      return put<void*>(to, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(to, device ? found.mapped->id : 0);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put<unsigned>(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put<int>(to, ordinal_of(found));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<unsigned>(to, device && found.mapped->origin == Origin::allocated);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put<CUdeviceptr>(to, found.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put<size_t>(to, found.bytes());
    case CU_POINTER_ATTRIBUTE_MAPPED: return put<unsigned>(to, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(to, device ? found.mapped->pages->handle_types() : 0);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUdevice device = current_context()->device;
  auto pages = Pages::make(round_up(bytes, kGranularity), visible_devices()[device], 0);
  if (!pages) return CUDA_ERROR_OUT_OF_MEMORY;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto at = map_anywhere(std::move(pages), bytes, Origin::allocated, device);
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = *at;
  hold(Held::allocation, 1);
  return CUDA_SUCCESS;
}

// Waits for the device, as NVIDIA's driver does: a program that frees while a kernel spins hangs.
CUresult cuMemFree_v2(CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (address == 0) return CUDA_SUCCESS;
  finish_all(*current_context());
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  if (!unmap_anywhere(address, Origin::allocated)) return CUDA_ERROR_INVALID_VALUE;
  hold(Held::allocation, -1);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  constexpr unsigned kFlags =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (bytes == 0 || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const made = std::aligned_alloc(kPage, round_up(bytes, kPage));
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(made, 0xa5, bytes);  // nothing may be expected in it
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  all.pinned[reinterpret_cast<CUdeviceptr>(made)] = {bytes, current_context()};
  hold(Held::host_allocation, 1);
  *data = made;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* data) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  finish_all(*current_context());
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  if (all.pinned.erase(reinterpret_cast<CUdeviceptr>(data)) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(data);
  hold(Held::host_allocation, -1);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* data, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  if (flags != 0 || !find(all, reinterpret_cast<CUdeviceptr>(data)).pinned)
    return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Found found = find(all, address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = found.base;
  if (bytes) *bytes = found.bytes();
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Found found = find(all, address);
  return found && value ? tell(value, attribute, found, address) : CUDA_ERROR_INVALID_VALUE;
}

// Of a pointer that is not CUDA's, or a question that it has no answer to, the value stays 0.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (!attributes || !values) return CUDA_ERROR_INVALID_VALUE;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Found found = find(all, address);
  for (unsigned i = 0; i < count; ++i)
    if (found) tell(values[i], attributes[i], found, address);
  return CUDA_SUCCESS;
}

// For GPUDirect RDMA, which the double's devices do not offer by dmabuf.
CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, size_t, CUmemRangeHandleType,
                                       unsigned long long) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget,
                                    CUflushGPUDirectRDMAWritesScope) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  return CUDA_ERROR_NOT_SUPPORTED;
}
}

#include "tests/cuda/double/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/cuda/double/captures.h"

namespace fake_cuda {
namespace {

constexpr size_t kPage = 4096;

// Bytes that this process may still allocate on a device.
size_t left_on(Tables& all, CUdevice device) {
  size_t used = 0;
  for (const auto& [address, one] : all.allocated)
    if (one.device == device) used += one.bytes;
  return kDeviceBytes - used;
}

void* map(size_t bytes, int access) {
  void* const at =
      ::mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  ::madvise(at, bytes, MADV_DONTFORK);
  return at;
}

// What is known of an address; neither: nothing.
struct Found {
  const Allocated* allocated = nullptr;
  const Pinned* pinned = nullptr;
  explicit operator bool() const { return allocated || pinned; }
};

Found find(Tables& all, CUdeviceptr address) {
  Found found;
  if (const auto at = containing(all.allocated, address); at != all.allocated.end())
    found.allocated = &at->second;
  else if (const auto host = containing(all.pinned, address); host != all.pinned.end())
    found.pinned = &host->second;
  return found;
}

template <class T>
CUresult put(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult tell(void* to, CUpointer_attribute attribute, const Found& found) {
  const bool device = found.allocated != nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(to, device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put<unsigned>(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(to, device ? found.allocated->device : found.pinned->context->device);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult pin(void* data, size_t bytes, bool registered) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto begin = reinterpret_cast<CUdeviceptr>(data);
  for (const auto& [address, one] : all.pinned)
    if (address < begin + bytes && begin < address + one.bytes)
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  all.pinned[begin] = {bytes, current_context(), registered};
  hold(registered ? Held::registration : Held::host_allocation, 1);
  return CUDA_SUCCESS;
}

CUresult unpin(void* data, bool registered) {
  finish_all(*current_context());
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto found = all.pinned.find(reinterpret_cast<CUdeviceptr>(data));
  if (found == all.pinned.end() || found->second.registered != registered)
    return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
  all.pinned.erase(found);
  hold(registered ? Held::registration : Held::host_allocation, -1);
  return CUDA_SUCCESS;
}

}  // namespace

Tables& tables() { return forever<Tables>(); }

char* seen_by_device(CUdeviceptr address, size_t bytes) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Found found = find(all, address);
  if (found.allocated) {
    const auto at = containing(all.allocated, address);
    const size_t offset = address - at->first;
    return bytes <= at->second.asked_for - std::min(offset, at->second.asked_for)
               ? at->second.alias + offset
               : nullptr;
  }
  if (!found.pinned) return nullptr;
  const auto at = containing(all.pinned, address);
  return bytes <= at->first + at->second.bytes - address ? reinterpret_cast<char*>(address)
                                                         : nullptr;
}

bool is_pinned(const void* data, size_t bytes) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const auto at = containing(all.pinned, address);
  return at != all.pinned.end() && bytes <= at->first + at->second.bytes - address;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

void* fake_cuda_on_host(const void* address) {
  return seen_by_device(reinterpret_cast<CUdeviceptr>(address), 1);
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const CUdevice device = current_context()->device;
  const size_t whole = round_up(bytes, kPage);
  if (whole > left_on(all, device)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const alias = map(whole, PROT_READ | PROT_WRITE);
  void* const made = alias ? map(whole, PROT_NONE) : nullptr;
  if (!made) {
    if (alias) ::munmap(alias, whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::memset(alias, 0xa5, bytes);  // nothing may be expected in it
  *address = reinterpret_cast<CUdeviceptr>(made);
  all.allocated[*address] = {static_cast<char*>(alias), whole, bytes, device};
  hold(Held::allocation, 1);
  return CUDA_SUCCESS;
}

// Waits for the device, as NVIDIA's driver does.
CUresult cuMemFree_v2(CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (address == 0) return CUDA_SUCCESS;
  finish_all(*current_context());
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto found = all.allocated.find(address);
  if (found == all.allocated.end()) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(found->second.alias, found->second.bytes);
  all.allocated.erase(found);
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
  std::memset(made, 0xa5, bytes);
  *data = made;
  return pin(made, bytes, false);
}

CUresult cuMemFreeHost(void* data) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (const CUresult code = unpin(data, false)) return code;
  std::free(data);
  return CUDA_SUCCESS;
}

// FAKE_CUDA_PINNED bounds how much a process may have registered.
CUresult cuMemHostRegister_v2(void* data, size_t bytes, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  if (!data || bytes == 0 || (flags & ~3U) != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t pinned = bytes;
  {
    std::lock_guard lock(tables().mutex);
    for (const auto& [address, one] : tables().pinned) pinned += one.bytes;
  }
  if (pinned > settings().pinned) return CUDA_ERROR_OUT_OF_MEMORY;
  return pin(data, bytes, true);
}

CUresult cuMemHostUnregister(void* data) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (const CUresult refused = refuse_beside_captures()) return refused;
  return unpin(data, true);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* data, unsigned flags) {
  if (const CUresult refused = enter(__func__, Needs::context)) return refused;
  if (flags != 0 || !is_pinned(data, 1)) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}

// Of a pointer that is not CUDA's, or a question that it has no answer to, the value stays 0.
// It needs no current context: libraries ask in any thread which context a pointer belongs to.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  if (const CUresult refused = enter(__func__, Needs::driver)) return refused;
  if (!attributes || !values) return CUDA_ERROR_INVALID_VALUE;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Found found = find(all, address);
  for (unsigned i = 0; i < count; ++i)
    if (found) tell(values[i], attributes[i], found);
  return CUDA_SUCCESS;
}
}

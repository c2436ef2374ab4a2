// cuMemCreate and what belongs to it: memory apart from its addresses.
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/cuda/double/memory.h"

using namespace fake_cuda;

namespace {

CUmemGenericAllocationHandle add_handle(Tables& all, std::shared_ptr<Pages> pages) {
  const CUmemGenericAllocationHandle handle = 0x1000 + all.next_id++;
  all.handles[handle] = {std::move(pages), 1};
  hold(Held::handle, 1);
  return handle;
}

Handle* find(Tables& all, CUmemGenericAllocationHandle handle) {
  const auto found = all.handles.find(handle);
  return found == all.handles.end() ? nullptr : &found->second;
}

bool is_multiple(size_t bytes) { return bytes != 0 && bytes % kGranularity == 0; }

CUresult wrong_with(const CUmemAllocationProp* properties) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->win32HandleMetaData)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  const unsigned types = properties->requestedHandleTypes;
  return types == CU_MEM_HANDLE_TYPE_NONE || types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

bool overlaps(Tables& all, CUdeviceptr address, size_t bytes) {
  const auto next = all.mapped.lower_bound(address);
  return mapping_at(all, address) != all.mapped.end() ||
         (next != all.mapped.end() && next->first < address + bytes);
}

// The mappings that make up exactly [address, address + bytes); none: they do not.
std::vector<CUdeviceptr> whole_mappings(Tables& all, CUdeviceptr address, size_t bytes) {
  std::vector<CUdeviceptr> found;
  CUdeviceptr next = address;
  while (next < address + bytes) {
    const auto at = all.mapped.find(next);
    if (at == all.mapped.end() || at->second.origin != Origin::virtual_memory) return {};
    found.push_back(next);
    next += at->second.bytes;
  }
  return next == address + bytes ? found : std::vector<CUdeviceptr>{};
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (const CUresult wrong = wrong_with(properties)) return wrong;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (const CUresult wrong = wrong_with(properties)) return wrong;
  if (!is_multiple(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto pages = Pages::make(bytes, visible_devices()[properties->location.id],
                           properties->requestedHandleTypes);
  if (!pages) return CUDA_ERROR_OUT_OF_MEMORY;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  *handle = add_handle(all, std::move(pages));
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  Handle* const found = find(all, handle);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  if (--found->references == 0) all.handles.erase(handle);
  hold(Held::handle, -1);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto mapped = mapping_at(all, reinterpret_cast<CUdeviceptr>(address));
  if (mapped == all.mapped.end() || mapped->second.origin != Origin::virtual_memory)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto& [number, known] : all.handles) {
    if (known.pages != mapped->second.pages) continue;
    ++known.references;
    hold(Held::handle, 1);
    *handle = number;
    return CUDA_SUCCESS;
  }
  *handle = add_handle(all, mapped->second.pages);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Handle* const found = find(all, handle);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes =
      static_cast<CUmemAllocationHandleType>(found->pages->handle_types());
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = -1;  // of a device that this process does not see
  for (size_t i = 0; i < visible_devices().size(); ++i)
    if (visible_devices()[i] == found->pages->physical_device())
      properties->location.id = static_cast<int>(i);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_multiple(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const CUdeviceptr found = reserve_addresses(bytes, std::max(alignment, kGranularity));
  if (found == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  all.reserved[found] = bytes;
  hold(Held::reservation, 1);
  *address = found;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto found = all.reserved.find(address);
  if (found == all.reserved.end() || found->second != bytes || overlaps(all, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  ::munmap(reinterpret_cast<void*>(address), bytes);
  all.reserved.erase(found);
  hold(Held::reservation, -1);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Handle* const found = find(all, handle);
  const auto room = containing(all.reserved, address, [](size_t all_bytes) { return all_bytes; });
  // NVIDIA's driver takes no offset but 0 either.
  if (!found || offset != 0 || flags != 0 || !is_multiple(bytes) || address % kGranularity != 0 ||
      bytes > found->pages->bytes() || room == all.reserved.end() ||
      address + bytes > room->first + room->second || overlaps(all, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (!show_pages(address, *found->pages, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  all.mapped[address] = {found->pages, bytes, bytes, Origin::virtual_memory, all.next_id++};
  hold(Held::mapping, 1);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto found = whole_mappings(all, address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr at : found) all.mapped.erase(at);
  hold(Held::mapping, -static_cast<int>(found.size()));
  return hide_pages(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!access || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(access[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
  }
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const auto found = whole_mappings(all, address, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr at : found) {
    Mapped& mapped = all.mapped[at];
    for (size_t i = 0; i < count; ++i) mapped.access[access[i].location.id] = access[i].flags;
    if (!protect(at, mapped.bytes, mapped.most_access())) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* to, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (const CUresult refused = enter(__func__)) return refused;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  const Handle* const found = find(all, handle);
  if (!found || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      (found->pages->handle_types() & type) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(found->pages->fd(), F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(to) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto pages = Pages::of(static_cast<int>(reinterpret_cast<intptr_t>(from)));
  if (!pages) return CUDA_ERROR_INVALID_VALUE;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  *handle = add_handle(all, std::move(pages));
  return CUDA_SUCCESS;
}
}

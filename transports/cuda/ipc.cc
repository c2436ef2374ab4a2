#include "transports/cuda/ipc.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "transports/base/fork_guard.h"
#include "transports/cuda/check.h"

namespace ringwood::cuda {
namespace {

// The context in which it is open comes first: one that was made anew has nothing open.
using Key = std::tuple<CUcontext, Uuid, CUdeviceptr, size_t, std::string>;

// Those of one process; a fork inherits nothing that is open, and a mutex that may be locked.
struct Known {
  const int pid = current_pid();
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const OpenAllocation>> open;
};

// Never destroyed: buffers may outlive everything else in the process.
Known& known_here() {
  static std::atomic<Known*> current{nullptr};
  Known* seen = current.load(std::memory_order_acquire);
  if (seen && !forked_since(seen->pid)) return *seen;
  auto fresh = std::make_unique<Known>();
  if (current.compare_exchange_strong(seen, fresh.get())) return *fresh.release();
  return *seen;  // another thread was first
}

}  // namespace

const char* to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::by_descriptor: return "by descriptor";
    case Sharing::by_ipc_handle: return "by IPC handle";
    case Sharing::none: return "not shared";
  }
  return "unknown";
}

Sharing sharing_of(const Device& device, CUdeviceptr data) {
  const CurrentContext current(device);
  unsigned type = 0, legacy = 0;
  uint64_t types = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                      CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};
  void* values[] = {&type, &legacy, &types};
  device.require(device.driver().memory.pointer_attributes(3, attributes, values, data),
                 "cuPointerGetAttributes");
  if (type != CU_MEMORYTYPE_DEVICE) return Sharing::none;
  if ((types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) return Sharing::by_descriptor;
  return (legacy & 0xff) != 0 ? Sharing::by_ipc_handle : Sharing::none;
}

IpcBuffer export_buffer(const Device& device, CUdeviceptr data) {
  const CurrentContext current(device);
  const MemoryCalls& memory = device.driver().memory;
  IpcBuffer buffer;
  buffer.allocation.device = device.facts().uuid;
  device.require(memory.address_range(&buffer.allocation.base, &buffer.allocation.bytes, data),
                 "cuMemGetAddressRange");
  buffer.offset = data - buffer.allocation.base;
  const CUresult code = memory.ipc_get(&buffer.allocation.handle, buffer.allocation.base);
  if (code == CUDA_ERROR_INVALID_VALUE)
    throw Error(ErrorCode::unsupported,
                fmt::format("cuIpcGetMemHandle on device {}: this memory has no IPC handle; "
                            "allocate it with cudaMalloc or as an arena's",
                            device.ordinal()));
  device.require(code, "cuIpcGetMemHandle");
  return buffer;
}

std::shared_ptr<const OpenAllocation> OpenAllocation::of(const Device& device,
                                                         const IpcAllocation& allocation) {
  Known& known = known_here();
  std::lock_guard lock(known.mutex);
  std::erase_if(known.open, [](const auto& entry) { return entry.second.expired(); });
  const Key key{device.context(), allocation.device, allocation.base, allocation.bytes,
                std::string(allocation.handle.reserved, sizeof allocation.handle.reserved)};
  if (const auto found = known.open.find(key); found != known.open.end())
    if (auto open = found->second.lock()) return open;
  std::shared_ptr<const OpenAllocation> open(new OpenAllocation(device, allocation));
  known.open[key] = open;
  return open;
}

OpenAllocation::OpenAllocation(const Device& device, const IpcAllocation& allocation)
    : device_(device.driver(), device.ordinal()), bytes_(allocation.bytes) {
  const CurrentContext current(device_);
  const BesideCaptures beside(device_);
  device_.require(device.driver().memory.ipc_open(&base_, allocation.handle,
                                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                  "cuIpcOpenMemHandle");
}

OpenAllocation::~OpenAllocation() {
  const BesideCaptures beside(device_);
  if (const CurrentContext current(device_, std::nothrow); current)
    device_.driver().memory.ipc_close(base_);
}

}  // namespace ringwood::cuda

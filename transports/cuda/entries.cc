#include <dlfcn.h>

#include "transports/cuda/driver.h"

namespace ringwood::cuda {
namespace {

// Fills one entry at a time; remembers the first name that is missing.
class Entries {
 public:
  explicit Entries(void* library)
      : library_(library), ask_(reinterpret_cast<Ask>(::dlsym(library, "cuGetProcAddress_v2"))) {}

  // `version`: of CUDA that brought the prototype. `symbol`: its name in the library, if another.
  template <class F>
  void take(F& entry, const char* name, int version, const char* symbol = nullptr) {
    entry = find<F>(name, version, symbol);
    if (!entry && missing_.empty()) missing_ = name;
  }
  template <class F>
  void take_if_there(F& entry, const char* name, int version) {
    entry = find<F>(name, version, nullptr);
  }
  const std::string& missing() const { return missing_; }

 private:
  using Ask = CUresult (*)(const char* name, void** entry, int version, uint64_t flags,
                           CUdriverProcAddressQueryResult* status);

  template <class F>
  F find(const char* name, int version, const char* symbol) const {
    if (!ask_) return reinterpret_cast<F>(::dlsym(library_, symbol ? symbol : name));
    void* entry = nullptr;
    const CUresult code = ask_(name, &entry, version, kGetProcAddressLegacyStream, nullptr);
    return code == CUDA_SUCCESS ? reinterpret_cast<F>(entry) : nullptr;
  }

  void* library_;
  Ask ask_;
  std::string missing_;
};

void take(Entries& entries, DeviceCalls& device) {
  entries.take(device.get_count, "cuDeviceGetCount", 2000);
  entries.take(device.get, "cuDeviceGet", 2000);
  entries.take(device.get_name, "cuDeviceGetName", 2000);
  entries.take(device.get_uuid, "cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2");
  entries.take(device.get_attribute, "cuDeviceGetAttribute", 2000);
  entries.take(device.get_pci_bus_id, "cuDeviceGetPCIBusId", 4010);
  entries.take(device.total_memory, "cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2");
  entries.take(device.can_access_peer, "cuDeviceCanAccessPeer", 4000);
  entries.take(device.retain_primary_context, "cuDevicePrimaryCtxRetain", 7000);
  entries.take(device.release_primary_context, "cuDevicePrimaryCtxRelease", 11000,
               "cuDevicePrimaryCtxRelease_v2");
}

void take(Entries& entries, ContextCalls& context) {
  entries.take(context.push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2");
  entries.take(context.pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2");
  entries.take(context.get_current, "cuCtxGetCurrent", 4000);
  entries.take(context.get_device, "cuCtxGetDevice", 2000);
  entries.take(context.get_priorities, "cuCtxGetStreamPriorityRange", 5050);
  entries.take(context.free_memory, "cuMemGetInfo", 3020, "cuMemGetInfo_v2");
}

void take(Entries& entries, KernelCalls& kernel) {
  entries.take(kernel.load_module, "cuModuleLoadData", 2000);
  entries.take(kernel.unload_module, "cuModuleUnload", 2000);
  entries.take(kernel.get_function, "cuModuleGetFunction", 2000);
  entries.take_if_there(kernel.load_function, "cuFuncLoad", 12040);
  entries.take(kernel.get_attribute, "cuFuncGetAttribute", 2020);
  entries.take(kernel.blocks_per_multiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
               6050);
  entries.take(kernel.launch, "cuLaunchKernel", 4000);
  entries.take(kernel.launch_with, "cuLaunchKernelEx", 11060);
}

void take(Entries& entries, StreamCalls& stream) {
  entries.take(stream.create, "cuStreamCreateWithPriority", 5050);
  entries.take(stream.destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2");
  entries.take(stream.wait_event, "cuStreamWaitEvent", 3020);
  entries.take(stream.query, "cuStreamQuery", 2000);
  entries.take(stream.synchronize, "cuStreamSynchronize", 2000);
  entries.take(stream.host_function, "cuLaunchHostFunc", 10000);
  entries.take(stream.is_capturing, "cuStreamIsCapturing", 10000);
  entries.take(stream.capture_info, "cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2");
  entries.take(stream.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010);
}

void take(Entries& entries, GraphCalls& graph) {
  entries.take(graph.begin_capture, "cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2");
  entries.take(graph.end_capture, "cuStreamEndCapture", 10000);
  entries.take(graph.instantiate, "cuGraphInstantiateWithFlags", 11040);
  entries.take(graph.launch, "cuGraphLaunch", 10000);
  entries.take(graph.destroy, "cuGraphDestroy", 10000);
  entries.take(graph.destroy_executable, "cuGraphExecDestroy", 10000);
}

void take(Entries& entries, EventCalls& event) {
  entries.take(event.create, "cuEventCreate", 2000);
  entries.take(event.record, "cuEventRecord", 2000);
  entries.take(event.query, "cuEventQuery", 2000);
  entries.take(event.synchronize, "cuEventSynchronize", 2000);
  entries.take(event.elapsed, "cuEventElapsedTime", 2000);
  entries.take(event.destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2");
}

void take(Entries& entries, VirtualMemoryCalls& memory) {
  entries.take(memory.granularity, "cuMemGetAllocationGranularity", 10020);
  entries.take(memory.create, "cuMemCreate", 10020);
  entries.take(memory.release, "cuMemRelease", 10020);
  entries.take(memory.reserve, "cuMemAddressReserve", 10020);
  entries.take(memory.free_addresses, "cuMemAddressFree", 10020);
  entries.take(memory.map, "cuMemMap", 10020);
  entries.take(memory.unmap, "cuMemUnmap", 10020);
  entries.take(memory.set_access, "cuMemSetAccess", 10020);
  entries.take(memory.export_handle, "cuMemExportToShareableHandle", 10020);
  entries.take(memory.import_handle, "cuMemImportFromShareableHandle", 10020);
  entries.take(memory.retain, "cuMemRetainAllocationHandle", 11000);
  entries.take(memory.properties, "cuMemGetAllocationPropertiesFromHandle", 10020);
}

void take(Entries& entries, MemoryCalls& memory) {
  entries.take(memory.host_allocate, "cuMemHostAlloc", 2020);
  entries.take(memory.host_free, "cuMemFreeHost", 2000);
  entries.take(memory.host_device_pointer, "cuMemHostGetDevicePointer", 3020,
               "cuMemHostGetDevicePointer_v2");
  entries.take(memory.copy, "cuMemcpyAsync", 4000);
  entries.take(memory.copy_to_device, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2");
  entries.take(memory.copy_to_host, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2");
  entries.take(memory.fill, "cuMemsetD8Async", 3020);
  entries.take(memory.address_range, "cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2");
  entries.take(memory.pointer_attribute, "cuPointerGetAttribute", 4000);
  entries.take(memory.pointer_attributes, "cuPointerGetAttributes", 7000);
  entries.take(memory.range_handle, "cuMemGetHandleForAddressRange", 11070);
  entries.take(memory.ipc_get, "cuIpcGetMemHandle", 4010);
  entries.take(memory.ipc_open, "cuIpcOpenMemHandle", 11000, "cuIpcOpenMemHandle_v2");
  entries.take(memory.ipc_close, "cuIpcCloseMemHandle", 4010);
  entries.take(memory.flush_rdma_writes, "cuFlushGPUDirectRDMAWrites", 11030);
}

}  // namespace

std::string fill(Driver& driver, void* library) {
  Entries entries(library);
  entries.take(driver.init, "cuInit", 2000);
  entries.take(driver.error_name, "cuGetErrorName", 6000);
  entries.take(driver.error_string, "cuGetErrorString", 6000);
  take(entries, driver.device);
  take(entries, driver.context);
  take(entries, driver.kernel);
  take(entries, driver.stream);
  take(entries, driver.graph);
  take(entries, driver.event);
  take(entries, driver.virtual_memory);
  take(entries, driver.memory);
  return entries.missing();
}

}  // namespace ringwood::cuda

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
  entries.take(device.retain_primary_context, "cuDevicePrimaryCtxRetain", 7000);
  entries.take(device.release_primary_context, "cuDevicePrimaryCtxRelease", 11000,
               "cuDevicePrimaryCtxRelease_v2");
}

void take(Entries& entries, ContextCalls& context) {
  entries.take(context.push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2");
  entries.take(context.pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2");
  entries.take(context.get_priorities, "cuCtxGetStreamPriorityRange", 5050);
}

void take(Entries& entries, StreamCalls& stream) {
  entries.take(stream.create, "cuStreamCreateWithPriority", 5050);
  entries.take(stream.destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2");
  entries.take(stream.wait_event, "cuStreamWaitEvent", 3020);
  entries.take(stream.query, "cuStreamQuery", 2000);
  entries.take(stream.synchronize, "cuStreamSynchronize", 2000);
  entries.take(stream.wait_value, "cuStreamWaitValue32", 11070, "cuStreamWaitValue32_v2");
  entries.take(stream.write_value, "cuStreamWriteValue32", 11070, "cuStreamWriteValue32_v2");
  entries.take(stream.host_function, "cuLaunchHostFunc", 10000);
  entries.take(stream.is_capturing, "cuStreamIsCapturing", 10000);
  entries.take(stream.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010);
}

void take(Entries& entries, EventCalls& event) {
  entries.take(event.create, "cuEventCreate", 2000);
  entries.take(event.record, "cuEventRecord", 2000);
  entries.take(event.query, "cuEventQuery", 2000);
  entries.take(event.synchronize, "cuEventSynchronize", 2000);
  entries.take(event.destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2");
}

void take(Entries& entries, MemoryCalls& memory) {
  entries.take(memory.allocate, "cuMemAlloc", 3020, "cuMemAlloc_v2");
  entries.take(memory.release, "cuMemFree", 3020, "cuMemFree_v2");
  entries.take(memory.host_register, "cuMemHostRegister", 6050, "cuMemHostRegister_v2");
  entries.take(memory.host_unregister, "cuMemHostUnregister", 4000);
  entries.take(memory.host_device_pointer, "cuMemHostGetDevicePointer", 3020,
               "cuMemHostGetDevicePointer_v2");
  entries.take(memory.copy_to_device, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2");
  entries.take(memory.copy_to_host, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2");
  entries.take(memory.copy_within_device, "cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2");
  entries.take(memory.pointer_attributes, "cuPointerGetAttributes", 7000);
}

}  // namespace

std::string fill(Driver& driver, void* library) {
  Entries entries(library);
  entries.take(driver.init, "cuInit", 2000);
  entries.take(driver.error_name, "cuGetErrorName", 6000);
  entries.take(driver.error_string, "cuGetErrorString", 6000);
  take(entries, driver.device);
  take(entries, driver.context);
  take(entries, driver.stream);
  take(entries, driver.event);
  take(entries, driver.memory);
  return entries.missing();
}

}  // namespace ringwood::cuda

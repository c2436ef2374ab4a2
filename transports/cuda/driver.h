// NVIDIA's driver library, libcuda.so.1, loaded at run time: one build runs with and without it.
//
// The table holds the entry points of the driver API that are used here, by subject. Each is asked
// for by cuGetProcAddress() with the version of CUDA whose prototype is declared here, because one
// name has several prototypes (cuStreamWaitValue32 has two); where a library lacks that call, the
// symbol of the same version is looked up.
//
// Every entry is there, or there is no driver at all: a missing library, a driver older than CUDA
// 12.0, a missing entry or no visible device is one sentence with its remedy.
//
// Thread safety: all functions; the table never changes once it is returned. Never unloaded: the
// driver's threads outlive this library's. A child of fork() must not touch CUDA: usable() is then
// false, load() returns an error, and all objects of this folder end without a call.
// Sizes are bytes. Sources: NVIDIA's CUDA Driver API reference; cudaTypedefs.h for the versions.
#pragma once

#include "transports/base/result.h"
#include "transports/cuda/cuda_types.h"

namespace ringwood::cuda {

// Versions as the driver tells them: 1000 * major + 10 * minor.
inline constexpr int kOldestDriver = 12000;

struct DeviceCalls {
  CUresult (*get_count)(int* count);
  CUresult (*get)(CUdevice* device, int ordinal);
  CUresult (*get_name)(char* name, int room, CUdevice device);
  CUresult (*get_uuid)(CUuuid* uuid, CUdevice device);
  CUresult (*get_attribute)(int* value, CUdevice_attribute attribute, CUdevice device);
  CUresult (*get_pci_bus_id)(char* id, int room, CUdevice device);
  CUresult (*total_memory)(size_t* bytes, CUdevice device);
  CUresult (*retain_primary_context)(CUcontext* context, CUdevice device);
  CUresult (*release_primary_context)(CUdevice device);
};

struct ContextCalls {
  CUresult (*push)(CUcontext context);
  CUresult (*pop)(CUcontext* context);
  CUresult (*get_priorities)(int* least, int* greatest);
};

struct StreamCalls {
  CUresult (*create)(CUstream* stream, unsigned flags, int priority);
  CUresult (*destroy)(CUstream stream);
  CUresult (*wait_event)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*query)(CUstream stream);
  CUresult (*synchronize)(CUstream stream);
  // Work after it waits until the word at `address`, in memory of a device or registered by one, is
  // at `value` or past it: (int32_t)(word - value) >= 0 with kWaitAtLeast.
  CUresult (*wait_value)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
  CUresult (*write_value)(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
  CUresult (*host_function)(CUstream stream, CUhostFn function, void* user_data);
  CUresult (*is_capturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*exchange_capture_mode)(CUstreamCaptureMode* mode);  // of the calling thread
};

struct EventCalls {
  CUresult (*create)(CUevent* event, unsigned flags);
  CUresult (*record)(CUevent event, CUstream stream);
  CUresult (*query)(CUevent event);
  CUresult (*synchronize)(CUevent event);
  CUresult (*destroy)(CUevent event);
};

struct MemoryCalls {
  CUresult (*allocate)(CUdeviceptr* address, size_t bytes);
  CUresult (*release)(CUdeviceptr address);
  CUresult (*host_register)(void* data, size_t bytes, unsigned flags);
  CUresult (*host_unregister)(void* data);
  CUresult (*host_device_pointer)(CUdeviceptr* device, void* data, unsigned flags);
  CUresult (*copy_to_device)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
  CUresult (*copy_to_host)(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*copy_within_device)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*pointer_attributes)(unsigned count, CUpointer_attribute* attributes, void** values,
                                 CUdeviceptr address);
};

struct Driver {
  int version = 0;  // of CUDA that the driver supports
  int pid = -1;     // of the process that loaded it
  CUresult (*init)(unsigned flags);
  CUresult (*error_name)(CUresult code, const char** name);
  CUresult (*error_string)(CUresult code, const char** text);
  DeviceCalls device;
  ContextCalls context;
  StreamCalls stream;
  EventCalls event;
  MemoryCalls memory;

  // False in a child of fork().
  bool usable() const noexcept;
};

// The driver of this process, initialised, with at least one device: `library`, or libcuda.so.1
// where that is empty (Options::cuda.library). The first call loads it, which takes up to a second;
// later ones return the same, whatever they name. Error(unsupported) says what to do; the next call
// then tries again.
Result<const Driver*> load(const std::string& library = "");
// Loads that file, and remembers nothing.
Result<const Driver*> load_from(const char* file);

// "12.4".
std::string version_text(int version);

// Fills all entries but the version. Returns the name of the first that is missing, or "".
std::string fill(Driver& driver, void* library);

}  // namespace ringwood::cuda

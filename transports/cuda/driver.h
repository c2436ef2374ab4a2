// NVIDIA's driver library, libcuda.so.1, loaded at run time: one build runs with and without it.
//
// The table holds the entry points of the driver API that are used here, by subject. Each is asked
// for by cuGetProcAddress() with the version of CUDA whose prototype is declared here, because one
// name has several prototypes (cuStreamGetCaptureInfo has three); where a library lacks that call,
// the symbol of the same version is looked up.
//
// Entries that older drivers lack are null and marked so. Every other entry is there, or there is
// no driver at all: a missing library, a driver older than CUDA 12.0, a missing entry or no visible
// device is one sentence with its remedy, which the caller logs once.
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
  CUresult (*can_access_peer)(int* can, CUdevice device, CUdevice peer);
  CUresult (*retain_primary_context)(CUcontext* context, CUdevice device);
  CUresult (*release_primary_context)(CUdevice device);
};

struct ContextCalls {
  CUresult (*push)(CUcontext context);
  CUresult (*pop)(CUcontext* context);
  CUresult (*get_current)(CUcontext* context);
  CUresult (*get_device)(CUdevice* device);
  CUresult (*get_priorities)(int* least, int* greatest);
  CUresult (*free_memory)(size_t* free, size_t* total);
};

struct KernelCalls {
  CUresult (*load_module)(CUmodule* module, const void* image);
  CUresult (*unload_module)(CUmodule module);
  CUresult (*get_function)(CUfunction* function, CUmodule module, const char* name);
  CUresult (*load_function)(CUfunction function);  // null before CUDA 12.4
  CUresult (*get_attribute)(int* value, CUfunction_attribute attribute, CUfunction function);
  CUresult (*blocks_per_multiprocessor)(int* blocks, CUfunction function, int threads,
                                        size_t dynamic_shared);
  CUresult (*launch)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared,
                     CUstream stream, void** parameters, void** extra);
  CUresult (*launch_with)(const CUlaunchConfig* how, CUfunction function, void** parameters,
                          void** extra);
};

struct StreamCalls {
  CUresult (*create)(CUstream* stream, unsigned flags, int priority);
  CUresult (*destroy)(CUstream stream);
  CUresult (*wait_event)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*query)(CUstream stream);
  CUresult (*synchronize)(CUstream stream);
  CUresult (*host_function)(CUstream stream, CUhostFn function, void* user_data);
  CUresult (*is_capturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*capture_info)(CUstream stream, CUstreamCaptureStatus* status, uint64_t* id,
                           CUgraph* graph, const CUgraphNode** dependencies, size_t* count);
  CUresult (*exchange_capture_mode)(CUstreamCaptureMode* mode);  // of the calling thread
};

struct GraphCalls {
  CUresult (*begin_capture)(CUstream stream, CUstreamCaptureMode mode);
  CUresult (*end_capture)(CUstream stream, CUgraph* graph);
  CUresult (*instantiate)(CUgraphExec* executable, CUgraph graph, unsigned long long flags);
  CUresult (*launch)(CUgraphExec executable, CUstream stream);
  CUresult (*destroy)(CUgraph graph);
  CUresult (*destroy_executable)(CUgraphExec executable);
};

struct EventCalls {
  CUresult (*create)(CUevent* event, unsigned flags);
  CUresult (*record)(CUevent event, CUstream stream);
  CUresult (*query)(CUevent event);
  CUresult (*synchronize)(CUevent event);
  CUresult (*elapsed)(float* milliseconds, CUevent start, CUevent end);
  CUresult (*destroy)(CUevent event);
};

// Memory apart from its addresses. An allocation lives until its handle is released and it is
// unmapped everywhere, in all processes.
struct VirtualMemoryCalls {
  CUresult (*granularity)(size_t* bytes, const CUmemAllocationProp* properties,
                          CUmemAllocationGranularity_flags which);
  CUresult (*create)(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags);
  CUresult (*release)(CUmemGenericAllocationHandle handle);
  CUresult (*reserve)(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr wish,
                      unsigned long long flags);
  CUresult (*free_addresses)(CUdeviceptr address, size_t bytes);
  CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags);
  CUresult (*unmap)(CUdeviceptr address, size_t bytes);
  CUresult (*set_access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                         size_t count);
  CUresult (*export_handle)(void* to, CUmemGenericAllocationHandle handle,
                            CUmemAllocationHandleType type, unsigned long long flags);
  CUresult (*import_handle)(CUmemGenericAllocationHandle* handle, void* from,
                            CUmemAllocationHandleType type);
  CUresult (*retain)(CUmemGenericAllocationHandle* handle, void* address);
  CUresult (*properties)(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle);
};

struct MemoryCalls {
  CUresult (*host_allocate)(void** data, size_t bytes, unsigned flags);
  CUresult (*host_free)(void* data);
  CUresult (*host_device_pointer)(CUdeviceptr* device, void* data, unsigned flags);
  CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*copy_to_device)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
  CUresult (*copy_to_host)(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*fill)(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
  CUresult (*address_range)(CUdeviceptr* base, size_t* bytes, CUdeviceptr address);
  CUresult (*pointer_attribute)(void* value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult (*pointer_attributes)(unsigned count, CUpointer_attribute* attributes, void** values,
                                 CUdeviceptr address);
  CUresult (*range_handle)(void* handle, CUdeviceptr address, size_t bytes,
                           CUmemRangeHandleType type, unsigned long long flags);
  CUresult (*ipc_get)(CUipcMemHandle* handle, CUdeviceptr address);
  CUresult (*ipc_open)(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags);
  CUresult (*ipc_close)(CUdeviceptr address);
  CUresult (*flush_rdma_writes)(CUflushGPUDirectRDMAWritesTarget target,
                                CUflushGPUDirectRDMAWritesScope scope);
};

struct Driver {
  int version = 0;  // of CUDA that the driver supports
  int pid = -1;     // of the process that loaded it
  CUresult (*init)(unsigned flags);
  CUresult (*error_name)(CUresult code, const char** name);
  CUresult (*error_string)(CUresult code, const char** text);
  DeviceCalls device;
  ContextCalls context;
  KernelCalls kernel;
  StreamCalls stream;
  GraphCalls graph;
  EventCalls event;
  VirtualMemoryCalls virtual_memory;
  MemoryCalls memory;

  // False in a child of fork().
  bool usable() const noexcept;
};

// The driver of this process, initialised, with at least one device. The first call loads it, which
// takes up to a second; later ones return the same. Error(unsupported) says what to do; the next
// call then tries again.
Result<const Driver*> load();
// Loads a named file instead, and remembers nothing: for tests.
Result<const Driver*> load_from(const char* file);

// "12.4".
std::string version_text(int version);

// Fills all entries but the version. Returns the name of the first that is missing, or "".
std::string fill(Driver& driver, void* library);

}  // namespace ringwood::cuda

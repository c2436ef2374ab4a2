// Compiled, never run: what cuda_types.h and driver.h declare anew is what NVIDIA's headers say.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "transports/cuda/driver.h"

namespace ours = ringwood::cuda;

namespace {

// Sizes, offsets and values.
#define SAME_SIZE(type) \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type))
#define SAME_PLACE(type, member)                                            \
  static_assert(offsetof(ours::type, member) == offsetof(::type, member) && \
                sizeof(ours::type::member) == sizeof(::type::member))
#define SAME_VALUE(name) \
  static_assert(static_cast<unsigned>(ours::name) == static_cast<unsigned>(::name))

SAME_SIZE(CUdevice);
SAME_SIZE(CUdeviceptr);
SAME_SIZE(CUmemGenericAllocationHandle);
SAME_SIZE(CUresult);
SAME_SIZE(CUuuid);
SAME_SIZE(CUipcMemHandle);
SAME_SIZE(CUlaunchAttribute);
SAME_PLACE(CUlaunchAttribute, id);
SAME_PLACE(CUlaunchAttribute, value);
static_assert(offsetof(ours::CUlaunchAttribute, value.cooperative) ==
              offsetof(::CUlaunchAttribute, value.cooperative));
static_assert(offsetof(ours::CUlaunchAttribute, value.priority) ==
              offsetof(::CUlaunchAttribute, value.priority));
SAME_SIZE(CUlaunchConfig);
SAME_PLACE(CUlaunchConfig, gridDimX);
SAME_PLACE(CUlaunchConfig, blockDimZ);
SAME_PLACE(CUlaunchConfig, sharedMemBytes);
SAME_PLACE(CUlaunchConfig, hStream);
SAME_PLACE(CUlaunchConfig, attrs);
SAME_PLACE(CUlaunchConfig, numAttrs);
SAME_SIZE(CUmemLocation);
SAME_PLACE(CUmemLocation, type);
SAME_PLACE(CUmemLocation, id);
SAME_SIZE(CUmemAllocationProp);
SAME_PLACE(CUmemAllocationProp, type);
SAME_PLACE(CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(CUmemAllocationProp, location);
SAME_PLACE(CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(CUmemAllocationProp, allocFlags);
static_assert(offsetof(ours::CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) ==
              offsetof(::CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
SAME_SIZE(CUmemAccessDesc);
SAME_PLACE(CUmemAccessDesc, flags);

SAME_VALUE(CUDA_SUCCESS);
SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
SAME_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_MAP_FAILED);
SAME_VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_VALUE(CUDA_ERROR_MPS_CONNECTION_FAILED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_VALUE(CUDA_ERROR_CAPTURED_EVENT);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME_VALUE(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_IGNORE);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(CU_STREAM_DEFAULT);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_DEFAULT);
SAME_VALUE(CU_EVENT_DISABLE_TIMING);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(CU_MEM_HANDLE_TYPE_FABRIC);
SAME_VALUE(CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME_VALUE(CU_MEMORYTYPE_HOST);
SAME_VALUE(CU_MEMORYTYPE_DEVICE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME_VALUE(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
SAME_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
SAME_VALUE(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
SAME_VALUE(CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
static_assert(ours::kGetProcAddressLegacyStream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
static_assert(ours::kMemHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(ours::kMemHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);

// Prototypes: the same to a caller, though their types have two declarations.
template <class A, class B>
constexpr bool agree();

template <class A, class B>
struct Pointees {
  static constexpr bool value =
      std::is_const_v<A> == std::is_const_v<B> && agree<std::remove_cv_t<A>, std::remove_cv_t<B>>();
};
template <class R, class... A, class S, class... B>
struct Pointees<R(A...), S(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return agree<R, S>() && (agree<A, B>() && ...);
  }();
};

template <class A, class B>
constexpr bool agree() {
  if constexpr (std::is_same_v<A, B>)
    return true;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return Pointees<std::remove_pointer_t<A>, std::remove_pointer_t<B>>::value;
  else if constexpr ((std::is_enum_v<A> || std::is_integral_v<A>)&&(std::is_enum_v<B> ||
                                                                    std::is_integral_v<B>))
    return sizeof(A) == sizeof(B) && std::is_enum_v<A> == std::is_enum_v<B>;
  else if constexpr (std::is_class_v<A> && std::is_class_v<B>)
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
  else
    return false;
}
static_assert(!agree<int (*)(int), int (*)(long)>() &&
              !agree<int (*)(const int*), int (*)(int*)>());

#define SAME_CALL(group, member, typedefed) \
  static_assert(agree<decltype(ours::group::member), typedefed>())

SAME_CALL(Driver, init, PFN_cuInit_v2000);
SAME_CALL(Driver, error_name, PFN_cuGetErrorName_v6000);
SAME_CALL(Driver, error_string, PFN_cuGetErrorString_v6000);
SAME_CALL(DeviceCalls, get_count, PFN_cuDeviceGetCount_v2000);
SAME_CALL(DeviceCalls, get, PFN_cuDeviceGet_v2000);
SAME_CALL(DeviceCalls, get_name, PFN_cuDeviceGetName_v2000);
SAME_CALL(DeviceCalls, get_uuid, PFN_cuDeviceGetUuid_v11040);
SAME_CALL(DeviceCalls, get_attribute, PFN_cuDeviceGetAttribute_v2000);
SAME_CALL(DeviceCalls, get_pci_bus_id, PFN_cuDeviceGetPCIBusId_v4010);
SAME_CALL(DeviceCalls, total_memory, PFN_cuDeviceTotalMem_v3020);
SAME_CALL(DeviceCalls, can_access_peer, PFN_cuDeviceCanAccessPeer_v4000);
SAME_CALL(DeviceCalls, retain_primary_context, PFN_cuDevicePrimaryCtxRetain_v7000);
SAME_CALL(DeviceCalls, release_primary_context, PFN_cuDevicePrimaryCtxRelease_v11000);
SAME_CALL(ContextCalls, push, PFN_cuCtxPushCurrent_v4000);
SAME_CALL(ContextCalls, pop, PFN_cuCtxPopCurrent_v4000);
SAME_CALL(ContextCalls, get_current, PFN_cuCtxGetCurrent_v4000);
SAME_CALL(ContextCalls, get_device, PFN_cuCtxGetDevice_v2000);
SAME_CALL(ContextCalls, get_priorities, PFN_cuCtxGetStreamPriorityRange_v5050);
SAME_CALL(ContextCalls, free_memory, PFN_cuMemGetInfo_v3020);
SAME_CALL(KernelCalls, load_module, PFN_cuModuleLoadData_v2000);
SAME_CALL(KernelCalls, unload_module, PFN_cuModuleUnload_v2000);
SAME_CALL(KernelCalls, get_function, PFN_cuModuleGetFunction_v2000);
SAME_CALL(KernelCalls, load_function, PFN_cuFuncLoad_v12040);
SAME_CALL(KernelCalls, get_attribute, PFN_cuFuncGetAttribute_v2020);
SAME_CALL(KernelCalls, blocks_per_multiprocessor,
          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
SAME_CALL(KernelCalls, launch, PFN_cuLaunchKernel_v4000);
SAME_CALL(KernelCalls, launch_with, PFN_cuLaunchKernelEx_v11060);
SAME_CALL(StreamCalls, create, PFN_cuStreamCreateWithPriority_v5050);
SAME_CALL(StreamCalls, destroy, PFN_cuStreamDestroy_v4000);
SAME_CALL(StreamCalls, wait_event, PFN_cuStreamWaitEvent_v3020);
SAME_CALL(StreamCalls, query, PFN_cuStreamQuery_v2000);
SAME_CALL(StreamCalls, synchronize, PFN_cuStreamSynchronize_v2000);
SAME_CALL(StreamCalls, host_function, PFN_cuLaunchHostFunc_v10000);
SAME_CALL(StreamCalls, is_capturing, PFN_cuStreamIsCapturing_v10000);
SAME_CALL(StreamCalls, capture_info, PFN_cuStreamGetCaptureInfo_v11030);
SAME_CALL(StreamCalls, exchange_capture_mode, PFN_cuThreadExchangeStreamCaptureMode_v10010);
SAME_CALL(GraphCalls, begin_capture, PFN_cuStreamBeginCapture_v10010);
SAME_CALL(GraphCalls, end_capture, PFN_cuStreamEndCapture_v10000);
SAME_CALL(GraphCalls, instantiate, PFN_cuGraphInstantiateWithFlags_v11040);
SAME_CALL(GraphCalls, launch, PFN_cuGraphLaunch_v10000);
SAME_CALL(GraphCalls, destroy, PFN_cuGraphDestroy_v10000);
SAME_CALL(GraphCalls, destroy_executable, PFN_cuGraphExecDestroy_v10000);
SAME_CALL(EventCalls, create, PFN_cuEventCreate_v2000);
SAME_CALL(EventCalls, record, PFN_cuEventRecord_v2000);
SAME_CALL(EventCalls, query, PFN_cuEventQuery_v2000);
SAME_CALL(EventCalls, synchronize, PFN_cuEventSynchronize_v2000);
SAME_CALL(EventCalls, elapsed, PFN_cuEventElapsedTime_v2000);
SAME_CALL(EventCalls, destroy, PFN_cuEventDestroy_v4000);
SAME_CALL(VirtualMemoryCalls, granularity, PFN_cuMemGetAllocationGranularity_v10020);
SAME_CALL(VirtualMemoryCalls, create, PFN_cuMemCreate_v10020);
SAME_CALL(VirtualMemoryCalls, release, PFN_cuMemRelease_v10020);
SAME_CALL(VirtualMemoryCalls, reserve, PFN_cuMemAddressReserve_v10020);
SAME_CALL(VirtualMemoryCalls, free_addresses, PFN_cuMemAddressFree_v10020);
SAME_CALL(VirtualMemoryCalls, map, PFN_cuMemMap_v10020);
SAME_CALL(VirtualMemoryCalls, unmap, PFN_cuMemUnmap_v10020);
SAME_CALL(VirtualMemoryCalls, set_access, PFN_cuMemSetAccess_v10020);
SAME_CALL(VirtualMemoryCalls, export_handle, PFN_cuMemExportToShareableHandle_v10020);
SAME_CALL(VirtualMemoryCalls, import_handle, PFN_cuMemImportFromShareableHandle_v10020);
SAME_CALL(VirtualMemoryCalls, retain, PFN_cuMemRetainAllocationHandle_v11000);
SAME_CALL(VirtualMemoryCalls, properties, PFN_cuMemGetAllocationPropertiesFromHandle_v10020);
SAME_CALL(MemoryCalls, host_allocate, PFN_cuMemHostAlloc_v2020);
SAME_CALL(MemoryCalls, host_free, PFN_cuMemFreeHost_v2000);
SAME_CALL(MemoryCalls, host_device_pointer, PFN_cuMemHostGetDevicePointer_v3020);
SAME_CALL(MemoryCalls, copy, PFN_cuMemcpyAsync_v4000);
SAME_CALL(MemoryCalls, copy_to_device, PFN_cuMemcpyHtoDAsync_v3020);
SAME_CALL(MemoryCalls, copy_to_host, PFN_cuMemcpyDtoHAsync_v3020);
SAME_CALL(MemoryCalls, fill, PFN_cuMemsetD8Async_v3020);
SAME_CALL(MemoryCalls, address_range, PFN_cuMemGetAddressRange_v3020);
SAME_CALL(MemoryCalls, pointer_attribute, PFN_cuPointerGetAttribute_v4000);
SAME_CALL(MemoryCalls, pointer_attributes, PFN_cuPointerGetAttributes_v7000);
SAME_CALL(MemoryCalls, range_handle, PFN_cuMemGetHandleForAddressRange_v11070);
SAME_CALL(MemoryCalls, ipc_get, PFN_cuIpcGetMemHandle_v4010);
SAME_CALL(MemoryCalls, ipc_open, PFN_cuIpcOpenMemHandle_v11000);
SAME_CALL(MemoryCalls, ipc_close, PFN_cuIpcCloseMemHandle_v4010);
SAME_CALL(MemoryCalls, flush_rdma_writes, PFN_cuFlushGPUDirectRDMAWrites_v11030);

}  // namespace

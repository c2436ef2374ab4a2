// Compiled, never run: what cuda_types.h and driver.h declare anew is what NVIDIA's headers say.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "transports/cuda/driver.h"

namespace ours = ringwood::cuda;

namespace {

// Sizes and values.
#define SAME_SIZE(type) \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type))
#define SAME_VALUE(name) \
  static_assert(static_cast<unsigned>(ours::name) == static_cast<unsigned>(::name))

SAME_SIZE(CUdevice);
SAME_SIZE(CUdeviceptr);
SAME_SIZE(CUresult);
SAME_SIZE(CUuuid);

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
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_VALUE(CUDA_ERROR_MPS_CONNECTION_FAILED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SAME_VALUE(CU_POINTER_ATTRIBUTE_IS_MANAGED);
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
SAME_VALUE(CU_MEMORYTYPE_HOST);
SAME_VALUE(CU_MEMORYTYPE_DEVICE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
static_assert(ours::kGetProcAddressLegacyStream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
static_assert(ours::kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(ours::kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(ours::kWaitAtLeast == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(ours::kWriteInOrder == CU_STREAM_WRITE_VALUE_DEFAULT);

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
SAME_CALL(DeviceCalls, retain_primary_context, PFN_cuDevicePrimaryCtxRetain_v7000);
SAME_CALL(DeviceCalls, release_primary_context, PFN_cuDevicePrimaryCtxRelease_v11000);
SAME_CALL(ContextCalls, push, PFN_cuCtxPushCurrent_v4000);
SAME_CALL(ContextCalls, pop, PFN_cuCtxPopCurrent_v4000);
SAME_CALL(ContextCalls, get_priorities, PFN_cuCtxGetStreamPriorityRange_v5050);
SAME_CALL(StreamCalls, create, PFN_cuStreamCreateWithPriority_v5050);
SAME_CALL(StreamCalls, destroy, PFN_cuStreamDestroy_v4000);
SAME_CALL(StreamCalls, wait_event, PFN_cuStreamWaitEvent_v3020);
SAME_CALL(StreamCalls, query, PFN_cuStreamQuery_v2000);
SAME_CALL(StreamCalls, synchronize, PFN_cuStreamSynchronize_v2000);
SAME_CALL(StreamCalls, wait_value, PFN_cuStreamWaitValue32_v11070);
SAME_CALL(StreamCalls, write_value, PFN_cuStreamWriteValue32_v11070);
SAME_CALL(StreamCalls, host_function, PFN_cuLaunchHostFunc_v10000);
SAME_CALL(StreamCalls, is_capturing, PFN_cuStreamIsCapturing_v10000);
SAME_CALL(StreamCalls, exchange_capture_mode, PFN_cuThreadExchangeStreamCaptureMode_v10010);
SAME_CALL(EventCalls, create, PFN_cuEventCreate_v2000);
SAME_CALL(EventCalls, record, PFN_cuEventRecord_v2000);
SAME_CALL(EventCalls, query, PFN_cuEventQuery_v2000);
SAME_CALL(EventCalls, synchronize, PFN_cuEventSynchronize_v2000);
SAME_CALL(EventCalls, destroy, PFN_cuEventDestroy_v4000);
SAME_CALL(MemoryCalls, allocate, PFN_cuMemAlloc_v3020);
SAME_CALL(MemoryCalls, release, PFN_cuMemFree_v3020);
SAME_CALL(MemoryCalls, host_register, PFN_cuMemHostRegister_v6050);
SAME_CALL(MemoryCalls, host_unregister, PFN_cuMemHostUnregister_v4000);
SAME_CALL(MemoryCalls, host_device_pointer, PFN_cuMemHostGetDevicePointer_v3020);
SAME_CALL(MemoryCalls, copy_to_device, PFN_cuMemcpyHtoDAsync_v3020);
SAME_CALL(MemoryCalls, copy_to_host, PFN_cuMemcpyDtoHAsync_v3020);
SAME_CALL(MemoryCalls, copy_within_device, PFN_cuMemcpyDtoDAsync_v3020);
SAME_CALL(MemoryCalls, pointer_attributes, PFN_cuPointerGetAttributes_v7000);

}  // namespace

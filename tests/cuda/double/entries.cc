// cuGetProcAddress: of each name the function that a version of CUDA means by it.
#include <string_view>

#include "tests/cuda/double/driver_state.h"

// After cuda.h as the double includes it.
#include <cudaTypedefs.h>

using namespace fake_cuda;

namespace {

struct Entry {
  const char* name;
  int version;  // of CUDA that brought it
  void* function;
};

// NVIDIA's typedef of the version has to be the function's type.
template <class F>
Entry entry(const char* name, int version, F function) {
  return {name, version, reinterpret_cast<void*>(function)};
}

#define ENTRY(name, version) ENTRY_AS(name, version, name)
#define ENTRY_AS(name, version, symbol) entry<PFN_##name##_v##version>(#name, version, symbol)
const Entry kEntries[] = {
    ENTRY(cuInit, 2000),
    ENTRY(cuDriverGetVersion, 2020),
    ENTRY(cuGetErrorName, 6000),
    ENTRY(cuGetErrorString, 6000),
    ENTRY(cuDeviceGetCount, 2000),
    ENTRY(cuDeviceGet, 2000),
    ENTRY(cuDeviceGetName, 2000),
    ENTRY_AS(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
    ENTRY(cuDeviceGetAttribute, 2000),
    ENTRY(cuDeviceGetPCIBusId, 4010),
    ENTRY_AS(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2),
    ENTRY(cuDevicePrimaryCtxRetain, 7000),
    ENTRY_AS(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2),
    ENTRY_AS(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2),
    ENTRY_AS(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2),
    ENTRY(cuCtxGetCurrent, 4000),
    ENTRY(cuCtxSetCurrent, 4000),
    ENTRY(cuCtxGetDevice, 2000),
    ENTRY(cuCtxGetStreamPriorityRange, 5050),
    ENTRY(cuLaunchHostFunc, 10000),
    ENTRY(cuStreamCreate, 2000),
    ENTRY(cuStreamCreateWithPriority, 5050),
    ENTRY_AS(cuStreamDestroy, 4000, cuStreamDestroy_v2),
    ENTRY(cuStreamWaitEvent, 3020),
    ENTRY(cuStreamQuery, 2000),
    ENTRY(cuStreamSynchronize, 2000),
    ENTRY_AS(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2),
    ENTRY_AS(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2),
    ENTRY(cuStreamIsCapturing, 10000),
    ENTRY_AS(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2),
    ENTRY(cuStreamEndCapture, 10000),
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
    ENTRY(cuEventCreate, 2000),
    ENTRY(cuEventRecord, 2000),
    ENTRY(cuEventQuery, 2000),
    ENTRY(cuEventSynchronize, 2000),
    ENTRY_AS(cuEventDestroy, 4000, cuEventDestroy_v2),
    ENTRY_AS(cuMemAlloc, 3020, cuMemAlloc_v2),
    ENTRY_AS(cuMemFree, 3020, cuMemFree_v2),
    ENTRY(cuMemHostAlloc, 2020),
    ENTRY(cuMemFreeHost, 2000),
    ENTRY_AS(cuMemHostRegister, 6050, cuMemHostRegister_v2),
    ENTRY(cuMemHostUnregister, 4000),
    ENTRY_AS(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2),
    ENTRY_AS(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2),
    ENTRY_AS(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2),
    ENTRY_AS(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2),
    ENTRY(cuMemsetD8Async, 3020),
    ENTRY(cuPointerGetAttributes, 7000),
    ENTRY_AS(cuGetProcAddress, 12000, cuGetProcAddress_v2),
};
#undef ENTRY
#undef ENTRY_AS

}  // namespace

extern "C" CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                        cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (const CUresult refused = enter(__func__, Needs::nothing)) return refused;
  *function = nullptr;
  if (version > settings().driver || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  int newest = -1;
  for (const Entry& entry : kEntries) {
    if (std::string_view(entry.name) != name || settings().missing.count(name) != 0) continue;
    known = true;
    if (entry.version > version || entry.version <= newest) continue;
    newest = entry.version;
    *function = entry.function;
  }
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : known   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

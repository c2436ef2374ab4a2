// Devices, and the names of errors.
#include <cstdio>
#include <cstring>

#include "tests/cuda/double/driver_state.h"

using namespace fake_cuda;

namespace {

struct Named {
  CUresult code;
  const char* name;
  const char* text;
};
#define NAMED(code, text) \
  { code, #code, text }
constexpr Named kErrors[] = {
    NAMED(CUDA_SUCCESS, "no error"),
    NAMED(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    NAMED(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    NAMED(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    NAMED(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    NAMED(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    NAMED(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAMED(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    NAMED(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    NAMED(CUDA_ERROR_NOT_READY, "device not ready"),
    NAMED(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    NAMED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "part or all of the requested memory range is already mapped"),
    NAMED(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    NAMED(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
          "system has unsupported display driver / cuda driver combination"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "operation not permitted when stream is capturing"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          "operation failed due to a previous error during capture"),
};
#undef NAMED

const Named* find(CUresult code) {
  for (const Named& named : kErrors)
    if (named.code == code) return &named;
  return nullptr;
}

int value_of(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: return 1;
    default: return 0;
  }
}

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult code, const char** name) {
  const Named* const found = find(code);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const Named* const found = find(code);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult refused = enter(__func__)) return refused;
  *count = static_cast<int>(visible_devices().size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int room, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(room), "Fake GPU %d", visible_devices()[device]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = uuid_of(visible_devices()[device]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int room, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(room), "0000:%02X:00.0", 0x1a + visible_devices()[device]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = kDeviceBytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult refused = enter(__func__)) return refused;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = value_of(attribute);
  return CUDA_SUCCESS;
}
}

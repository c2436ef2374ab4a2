// What a failed call of the driver becomes: one sentence with the call, the device, NVIDIA's name
// and text of the code, and the remedy where one is known.
//
//   cuMemHostRegister on device 1: CUDA_ERROR_OUT_OF_MEMORY, out of memory; free memory of ...
//
// Thread safety: all functions. Source of the remedies: the descriptions of CUresult in the CUDA
// Driver API reference, and NVIDIA's notes on its container toolkit, MPS and fabric manager.
#pragma once

#include "transports/base/error.h"
#include "transports/cuda/driver.h"

namespace ringwood::cuda {

// `device`: its ordinal; -1: the call is about none. Precondition: `code` is not CUDA_SUCCESS.
Error failure(const Driver& driver, CUresult code, const char* call, int device = -1);

inline Status check(const Driver& driver, CUresult code, const char* call, int device = -1) {
  if (code == CUDA_SUCCESS) [[likely]]
    return {};
  return failure(driver, code, call, device);
}

// For set-up: throws the Error.
inline void require(const Driver& driver, CUresult code, const char* call, int device = -1) {
  if (code != CUDA_SUCCESS) throw failure(driver, code, call, device);
}

}  // namespace ringwood::cuda

// Addresses of a device as pointers: what a kernel's argument has. The host never follows them.
#pragma once

#include <bit>

#include "transports/cuda/cuda_types.h"

namespace ringwood::device {

template <class T>
T* on_device(cuda::CUdeviceptr address) {
  return std::bit_cast<T*>(address);
}

}  // namespace ringwood::device

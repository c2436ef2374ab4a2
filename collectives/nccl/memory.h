// Whose memory a pointer is of, and the devices in use.
//
// A pointer can only be of a GPU's memory if the driver's library is loaded already: the driver is
// not loaded for programs that do not use CUDA.
//
// Thread safety: all functions. Errors: thrown.
#pragma once

#include <optional>

#include "transports/cuda/device.h"

namespace ringwood::nccl {

// Null: this process does not use CUDA, or is a child of fork() that cannot.
const cuda::Driver* driver_in_use();
// The ordinal of the GPU; none: memory of the CPU, page-locked memory included. `usual`: the GPU
// whose context is used to ask where this thread has none and the driver wants one.
std::optional<int> gpu_of(const void* data, int usual);
// Until the stream has done what it was given, as above.
void synchronize(cuda::CUstream stream, int usual);
// Kept to the end of the process.
const cuda::Device& device_in_use(int ordinal);
// The current one of this thread; none: no context.
std::optional<int> current_gpu();

}  // namespace ringwood::nccl

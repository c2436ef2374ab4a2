// The fat binaries of the kernels (kernel/kernels.cu), as they were compiled into this library.
#pragma once

#include <span>

namespace ringwood::device {

// Empty where the build had no CUDA compiler. For cuModuleLoadData().
std::span<const void* const> kernel_images();

}  // namespace ringwood::device

// NVIDIA's cuda.h with the names as the library exports them: cuMemAlloc_v2, not the macro.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

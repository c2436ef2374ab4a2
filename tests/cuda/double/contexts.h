// Contexts: the primary one of each device, and the stack of each thread.
#pragma once

#include "tests/cuda/double/driver_state.h"

namespace fake_cuda {
class Queue;
}

// As NVIDIA's header names it. Never destroyed: one that was released is known as such.
struct CUctx_st {
  CUdevice device = -1;
  std::mutex mutex;
  int retained = 0;
  std::shared_ptr<CUstream_st> default_stream;  // made when first used
  struct Known {
    std::shared_ptr<fake_cuda::Queue> queue;
    bool blocking;  // waits for the default stream, and it for this one
  };
  std::vector<Known> queues;  // also of destroyed streams that have work
};

namespace fake_cuda {

struct PerThread {
  std::vector<CUcontext> contexts;  // the last is the current one
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
// Of the calling thread. Not thread_local: the leak sanitizer fails in a process that has loaded
// dozens of libraries with such variables, as tests do with copies of this one.
PerThread& per_thread();

// That of the calling thread; null: none.
CUcontext current_context();
// CUDA_SUCCESS if there is one and it is alive.
CUresult current_context_state();

}  // namespace fake_cuda

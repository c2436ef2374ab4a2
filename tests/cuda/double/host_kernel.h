// A kernel as host code, for the double of libcuda: what its author writes, and the double runs.
//
// The double opens the library that the environment variable FAKE_CUDA_KERNELS names and asks it
// for each kernel by the name that cuModuleGetFunction() is given. A kernel has no parameter or
// one, a structure by value, which the launch copies.
//
// Every block of a launch is FAKE_CUDA_THREADS host threads (1 to 4, 2 if it is not set; fewer if
// the launch has fewer), whatever the size of its blocks, and all blocks run at the same time. A
// kernel has to be written for any number of threads: for (i = thread; i < n; i += threads). Its
// shared memory is aligned to 64 bytes and filled with 0xa5, as nothing may be expected there.
//
// Memory orders: sync() orders all accesses of a block's threads; what goes to other blocks,
// streams and processes needs atomics, as on the device. The end of a kernel is ordered before what
// follows it on its stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

// __syncthreads() of host threads. Yields: there may be fewer cores than threads.
class HostBarrier {
 public:
  explicit HostBarrier(unsigned threads) : threads_(threads) {}
  void sync() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    while (phase_.load(std::memory_order_acquire) == phase) std::this_thread::yield();
  }

 private:
  const unsigned threads_;
  std::atomic<uint32_t> arrived_{0}, phase_{0};
};

// What one thread of a block knows of its launch; each thread has its own.
struct BlockOfThreads {
  unsigned block, blocks;    // blockIdx.x, gridDim.x
  unsigned thread, threads;  // of the block
  HostBarrier* barrier;
  void sync() const { barrier->sync(); }
};

struct HostKernel {
  // Runs one thread of one block. `parameters`: a copy of the launch's, aligned to 16 bytes.
  void (*run_thread)(void* shared, const void* parameters, BlockOfThreads* block);
  size_t shared_bytes;
  size_t parameter_bytes;  // 0: it has none
};

// Null: there is no such kernel. Any thread; what is returned lives for ever.
extern "C" __attribute__((visibility("default"))) const HostKernel* ringwood_host_kernel(
    const char* name);

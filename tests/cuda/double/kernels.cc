#include "tests/cuda/double/kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/cuda/double/driver_state.h"

namespace fake_cuda {
const HostKernel* host_kernel(const char* name) {
  using Ask = const HostKernel* (*)(const char*);
  static const Ask ask = [] {
    const std::string& file = settings().kernels;
    if (file.empty()) return Ask{};
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) std::fprintf(stderr, "fake CUDA: FAKE_CUDA_KERNELS: %s\n", ::dlerror());
    return library ? reinterpret_cast<Ask>(::dlsym(library, "ringwood_host_kernel")) : Ask{};
  }();
  return ask ? ask(name) : nullptr;
}

namespace {

void run_block(const HostKernel& kernel, const void* parameters, unsigned block, unsigned blocks,
               unsigned count) {
  const Bytes shared(std::max<size_t>(kernel.shared_bytes, 1), 64);
  std::memset(shared.get(), 0xa5, kernel.shared_bytes);
  HostBarrier barrier(count);
  const auto run = [&](unsigned thread) {
    BlockOfThreads own{block, blocks, thread, count, &barrier};
    kernel.run_thread(shared.get(), parameters, &own);
  };
  std::vector<std::thread> others;
  for (unsigned thread = 1; thread < count; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace

void run_blocks(const HostKernel& kernel, const void* parameters, unsigned blocks, unsigned count) {
  std::vector<std::thread> others;
  for (unsigned block = 1; block < blocks; ++block)
    others.emplace_back([&, block] { run_block(kernel, parameters, block, blocks, count); });
  run_block(kernel, parameters, 0, blocks, count);
  for (std::thread& other : others) other.join();
}

}  // namespace fake_cuda

// The interpreter of device programs as kernels of the driver's double, by the names of
// collectives/device/kernel/kernels.cu: what a launch does there.
#include <array>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "collectives/device/kernel/host_kernels.h"
#include "tests/cuda/double/host_kernel.h"

namespace {

using namespace ringwood::device;

struct Shared {
  BlockMemory memory;
  alignas(64) std::byte barrier[sizeof(BlockBarrier)];  // one whose threads can agree
};

template <class Kernel>
void run(Kernel kernel, void* at, const void* parameters, BlockOfThreads* block) {
  auto& shared = *static_cast<Shared*>(at);
  if (block->thread == 0) new (shared.barrier) BlockBarrier(static_cast<int>(block->threads));
  block->sync();
  auto* const barrier = std::launder(reinterpret_cast<BlockBarrier*>(shared.barrier));
  kernel(HostMachine{static_cast<int>(block->thread), static_cast<int>(block->threads),
                     static_cast<int>(block->block), barrier},
         shared.memory, *static_cast<const Launch*>(parameters));
  block->sync();
}

// The double's table has plain functions, so each kernel has a place that says which one it is.
constexpr int kMaxKernels = 80;
ringwood::device::HostKernel g_kernels[kMaxKernels];
template <int kPlace>
void run_place(void* shared, const void* parameters, BlockOfThreads* block) {
  run(g_kernels[kPlace], shared, parameters, block);
}
using RunThread = void (*)(void*, const void*, BlockOfThreads*);
template <int... kPlaces>
constexpr std::array<RunThread, sizeof...(kPlaces)> places(std::integer_sequence<int, kPlaces...>) {
  return {run_place<kPlaces>...};
}
constexpr auto kPlaces = places(std::make_integer_sequence<int, kMaxKernels>());

}  // namespace

extern "C" const ::HostKernel* ringwood_host_kernel(const char* name) {
  static std::mutex mutex;
  static std::map<std::string, ::HostKernel> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(name); found != known.end()) return &found->second;
  const auto kernel = host_kernel(name);
  if (!kernel || known.size() == kMaxKernels) return nullptr;
  const size_t place = known.size();
  g_kernels[place] = kernel;
  return &(known[name] = {kPlaces[place], sizeof(Shared), sizeof(Launch)});
}

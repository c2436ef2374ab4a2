// Kernels for the tests of the double itself.
#include <string_view>

#include "tests/cuda/test_kernels.h"

namespace {

using namespace ringwood::testing;

std::atomic_ref<uint64_t> atomic(uint64_t& value) { return std::atomic_ref<uint64_t>(value); }

// Counts the threads that ran.
void count(void*, const void* parameters, BlockOfThreads*) {
  const auto& p = *static_cast<const CountParameters*>(parameters);
  atomic(*p.threads).fetch_add(1, std::memory_order_relaxed);
}

// Waits until the host, or another stream, opens the gate.
void wait_at_gate(void*, const void* parameters, BlockOfThreads*) {
  const auto& p = *static_cast<const GateParameters*>(parameters);
  while (atomic(*p.gate).load(std::memory_order_acquire) == 0) std::this_thread::yield();
}

// Ends only if all blocks run at the same time.
void meet(void*, const void* parameters, BlockOfThreads* block) {
  const auto& p = *static_cast<const CountParameters*>(parameters);
  atomic(*p.threads).fetch_add(1, std::memory_order_acq_rel);
  const uint64_t all = uint64_t{block->blocks} * block->threads;
  while (atomic(*p.threads).load(std::memory_order_acquire) < all) std::this_thread::yield();
}

// Each thread writes a place of the shared memory; the first adds them up after the barrier.
void add_in_shared(void* shared, const void* parameters, BlockOfThreads* block) {
  const auto& p = *static_cast<const CountParameters*>(parameters);
  auto* const places = static_cast<uint64_t*>(shared);
  places[block->thread] = block->thread + 1;
  block->sync();
  if (block->thread != 0) return;
  uint64_t sum = 0;
  for (unsigned i = 0; i < block->threads; ++i) sum += places[i];
  atomic(*p.threads).fetch_add(sum, std::memory_order_relaxed);
}

}  // namespace

extern "C" const HostKernel* ringwood_host_kernel(const char* name) {
  static const HostKernel kCount{count, 0, sizeof(CountParameters)};
  static const HostKernel kGate{wait_at_gate, 0, sizeof(GateParameters)};
  static const HostKernel kMeet{meet, 0, sizeof(CountParameters)};
  static const HostKernel kShared{add_in_shared, 4 * sizeof(uint64_t), sizeof(CountParameters)};
  const std::string_view wanted = name;
  return wanted == "count"    ? &kCount
         : wanted == "gate"   ? &kGate
         : wanted == "meet"   ? &kMeet
         : wanted == "shared" ? &kShared
                              : nullptr;
}

// The interpreter as kernels, one for each type and what is done with its numbers, so that each has
// the registers it needs. KERNEL_SET chooses some of them, which are compiled side by side.
#include "collectives/device/kernel/cuda_machine.h"

namespace ringwood::device {
namespace {

template <class N, Fold kFold>
__device__ __forceinline__ void run(const Launch& launch) {
  __shared__ BlockMemory shared;
  CudaMachine machine;
  Interpreter<N, kFold, CudaMachine>(machine, shared, launch).run();
}

}  // namespace
}  // namespace ringwood::device

// 512 threads: the registers of one multiprocessor for a block of 128 each.
#define RINGWOOD_KERNEL(name, Number, fold)                                             \
  extern "C" __global__ void __launch_bounds__(512, 1)                                  \
      ringwood_##name##_##fold(const __grid_constant__ ringwood::device::Launch launch) { \
    ringwood::device::run<ringwood::device::Number, ringwood::device::Fold::fold>(launch); \
  }
#define RINGWOOD_KERNELS(name, Number) \
  RINGWOOD_KERNEL(name, Number, sum)   \
  RINGWOOD_KERNEL(name, Number, min)   \
  RINGWOOD_KERNEL(name, Number, max)
#define RINGWOOD_SIGNED_KERNELS(name, Number) \
  RINGWOOD_KERNELS(name, Number)              \
  RINGWOOD_KERNEL(name, Number, product)
#define RINGWOOD_FLOAT_KERNELS(name, Number) \
  RINGWOOD_SIGNED_KERNELS(name, Number)      \
  RINGWOOD_KERNEL(name, Number, scaled)

#if KERNEL_SET == 0
RINGWOOD_FLOAT_KERNELS(float32, Float32)
RINGWOOD_KERNEL(float32, Float32, mean)
RINGWOOD_FLOAT_KERNELS(bfloat16, Bfloat16)
RINGWOOD_FLOAT_KERNELS(float16, Float16)
#elif KERNEL_SET == 1
RINGWOOD_FLOAT_KERNELS(float64, Float64)
RINGWOOD_KERNEL(float64, Float64, mean)
RINGWOOD_FLOAT_KERNELS(float8_e4m3, Float8E4m3)
RINGWOOD_FLOAT_KERNELS(float8_e5m2, Float8E5m2)
#elif KERNEL_SET == 2
RINGWOOD_SIGNED_KERNELS(int64, Integer<int64_t>)
RINGWOOD_KERNEL(int64, Integer<int64_t>, mean)
RINGWOOD_SIGNED_KERNELS(int32, Integer<int32_t>)
RINGWOOD_KERNEL(int32, Integer<int32_t>, mean)
RINGWOOD_KERNELS(uint32, Integer<uint32_t>)
RINGWOOD_KERNEL(uint32, Integer<uint32_t>, mean)
#else
RINGWOOD_SIGNED_KERNELS(int16, Integer<int16_t>)
RINGWOOD_KERNEL(int16, Integer<int16_t>, mean)
RINGWOOD_SIGNED_KERNELS(int8, Integer<int8_t>)
RINGWOOD_KERNEL(int8, Integer<int8_t>, mean)
RINGWOOD_KERNELS(uint8, Integer<uint8_t>)
RINGWOOD_KERNEL(uint8, Integer<uint8_t>, mean)
RINGWOOD_KERNEL(bits, Bits, band)
RINGWOOD_KERNEL(bits, Bits, bor)
RINGWOOD_KERNEL(bits, Bits, bxor)
#endif

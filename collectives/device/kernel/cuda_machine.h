// The machine of a GPU (kernel/interpret.h).
#pragma once

#include <cuda/atomic>

#include "collectives/device/kernel/interpret.h"

namespace ringwood::device {

struct CudaMachine {
  template <class T>
  using System = cuda::atomic_ref<T, cuda::thread_scope_system>;
  template <class T>
  static __device__ System<T> atomic(const T* p) {
    return System<T>(*const_cast<T*>(p));
  }

  __device__ int thread() const { return int(threadIdx.x); }
  __device__ int threads() const { return int(blockDim.x); }
  __device__ int block() const { return int(blockIdx.x); }
  __device__ void sync() { __syncthreads(); }
  __device__ bool sync_any(bool any) { return __syncthreads_or(any) != 0; }

  __device__ uint64_t load_acquire(const uint64_t* p) {
    return atomic(p).load(cuda::memory_order_acquire);
  }
  __device__ uint64_t load_relaxed(const uint64_t* p) {
    return atomic(p).load(cuda::memory_order_relaxed);
  }
  __device__ uint32_t load_relaxed32(const uint32_t* p) {
    return atomic(p).load(cuda::memory_order_relaxed);
  }
  __device__ void store_release(uint64_t* p, uint64_t x) {
    atomic(p).store(x, cuda::memory_order_release);
  }
  __device__ void store_relaxed(uint64_t* p, uint64_t x) {
    atomic(p).store(x, cuda::memory_order_relaxed);
  }
  __device__ uint64_t exchange(uint64_t* p, uint64_t x) {
    return atomic(p).exchange(x, cuda::memory_order_acq_rel);
  }
  template <class T>
  __device__ __forceinline__ T load(const T* p) {
    return *p;
  }
  template <class T>
  __device__ __forceinline__ void store(T* p, const T& x) {
    *p = x;
  }
  __device__ __forceinline__ Vector load(const Vector* p) {
    const uint4 x = *reinterpret_cast<const uint4*>(p);
    return {{x.x, x.y, x.z, x.w}};
  }
  __device__ __forceinline__ void store(Vector* p, const Vector& v) {
    *reinterpret_cast<uint4*>(p) = make_uint4(v.x[0], v.x[1], v.x[2], v.x[3]);
  }
  __device__ bool first_to_report(uint32_t* p, uint32_t code) {
    return atomicCAS_system(p, 0u, code) == 0;
  }
  __device__ void complete_report(uint32_t* p) { atomic(p).store(1u, cuda::memory_order_release); }
  __device__ __forceinline__ float float_of_half(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
  __device__ __forceinline__ uint16_t half_of_float(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
  __device__ void relax() { __nanosleep(20); }
  __device__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }
};

}  // namespace ringwood::device

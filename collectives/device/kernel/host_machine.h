// The machine of the host (kernel/interpret.h): a block is a few threads with a barrier that
// sleeps. Memory orders are those of the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "collectives/device/kernel/interpret.h"

namespace ringwood::device {

// Of one block's threads; may be used again and again.
class BlockBarrier final {
 public:
  explicit BlockBarrier(int threads) : threads_(threads) {}
  bool sync(bool any) {
    if (threads_ == 1) return any;
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (any) any_[phase % 2].store(true, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      // All have read what was said the time before.
      any_[(phase + 1) % 2].store(false, std::memory_order_relaxed);
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      phase_.notify_all();
    } else {
      phase_.wait(phase, std::memory_order_acquire);
    }
    return any_[phase % 2].load(std::memory_order_relaxed);
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> phase_{0};
  std::atomic<bool> any_[2] = {false, false};  // by parity of the phase
};

struct HostMachine {
  int of_thread = 0, of_threads = 1, of_block = 0;
  BlockBarrier* barrier = nullptr;

  int thread() const { return of_thread; }
  int threads() const { return of_threads; }
  int block() const { return of_block; }
  void sync() { barrier->sync(false); }
  bool sync_any(bool any) { return barrier->sync(any); }

  template <class T>
  static std::atomic_ref<T> atomic(const T* p) {
    return std::atomic_ref<T>(*const_cast<T*>(p));
  }
  uint64_t load_acquire(const uint64_t* p) { return atomic(p).load(std::memory_order_acquire); }
  uint64_t load_relaxed(const uint64_t* p) { return atomic(p).load(std::memory_order_relaxed); }
  uint32_t load_relaxed32(const uint32_t* p) { return atomic(p).load(std::memory_order_relaxed); }
  void store_release(uint64_t* p, uint64_t x) { atomic(p).store(x, std::memory_order_release); }
  void store_relaxed(uint64_t* p, uint64_t x) { atomic(p).store(x, std::memory_order_relaxed); }
  uint64_t exchange(uint64_t* p, uint64_t x) {
    return atomic(p).exchange(x, std::memory_order_acq_rel);
  }
  template <class T>
  T load(const T* p) {
    return *p;
  }
  template <class T>
  void store(T* p, const T& x) {
    *p = x;
  }
  bool first_to_report(uint32_t* p, uint32_t code) {
    uint32_t none = 0;
    return atomic(p).compare_exchange_strong(none, code);
  }
  void complete_report(uint32_t* p) { atomic(p).store(1, std::memory_order_release); }
  float float_of_half(uint16_t bits) { return HalfCodec::decode(bits); }
  uint16_t half_of_float(float x) { return HalfCodec::encode(x); }
  // Sleeps: beside other processes a thread that yields waits for their slices to end.
  void relax() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
  uint64_t nanoseconds() {
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

}  // namespace ringwood::device

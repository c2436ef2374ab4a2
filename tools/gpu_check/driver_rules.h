// What the checks of the driver share: words in memory of the device, and a stream that is held.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::gpu_check {

inline uint64_t word_at(const cuda::Device& device, cuda::CUdeviceptr at) {
  const cuda::Stream stream(device);
  const cuda::CurrentContext current(device);
  uint64_t word = 0;
  device.require(device.driver().memory.copy_to_host(&word, at, sizeof word, stream.get()),
                 "cuMemcpyDtoHAsync");
  stream.synchronize();
  return word;
}
inline void set_word(const cuda::Device& device, cuda::CUdeviceptr at, uint64_t word) {
  const cuda::Stream stream(device);
  const cuda::CurrentContext current(device);
  device.require(device.driver().memory.copy_to_device(at, &word, sizeof word, stream.get()),
                 "cuMemcpyHtoDAsync");
  stream.synchronize();
}
inline std::string expect(uint64_t found, uint64_t expected) {
  return found == expected
             ? ""
             : "a word is " + std::to_string(found) + " and should be " + std::to_string(expected);
}

// What comes after it on the stream waits until it is opened: by itself after two seconds, so that
// nothing hangs.
class Gate final {
 public:
  Gate(const cuda::Device& device, cuda::CUstream stream) {
    const cuda::CurrentContext current(device);
    device.require(device.driver().stream.host_function(stream, hold, this), "cuLaunchHostFunc");
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    while (!passed_.load(std::memory_order_acquire)) std::this_thread::yield();
  }
  void open() { open_.store(true, std::memory_order_release); }

 private:
  static void hold(void* data) {
    auto* const gate = static_cast<Gate*>(data);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!gate->open_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    gate->passed_.store(true, std::memory_order_release);
  }
  std::atomic<bool> open_ = false, passed_ = false;
};

class Findings;
void memory_rules(const cuda::Device& device, const std::string& program, Findings& findings);
void stream_rules(const cuda::Device& device, Findings& findings);

}  // namespace ringwood::gpu_check

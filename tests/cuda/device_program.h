// For tests: calls of a group on memory of devices, made as a CUDA program makes them, with the
// double in the place of NVIDIA's driver.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cuda/double/control.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "tests/support/values.h"
#include "transports/cuda/handles.h"

namespace ringwood::testing {

using namespace cuda;

// The driver of this process: its streams begin their tasks late, at random.
inline const Driver& driver() {
  static const Driver* const loaded = [] {
    ::setenv("FAKE_CUDA_DELAY", "11", 1);
    auto result = load(CUDA_DOUBLE);
    ::unsetenv("FAKE_CUDA_DELAY");
    return result ? *result : nullptr;
  }();
  return *loaded;
}

template <class F>
F entry(const char* name) {
  static void* const library = ::dlopen(CUDA_DOUBLE, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<F>(::dlsym(library, name));
}

inline void fail(const std::string& plan) {
  entry<void (*)(const char*)>("fake_cuda_fail")(plan.c_str());
}
inline void pause(bool on) { entry<void (*)(int)>("fake_cuda_pause")(on); }
inline std::string left() {
  char text[256];
  entry<void (*)(char*, size_t)>("fake_cuda_left")(text, sizeof text);
  return text;
}

// What a program of one rank has on its device: a stream and buffers.
class Program {
 public:
  explicit Program(int rank) : device(driver(), rank % 2), stream(device) {}
  ~Program() {
    const CurrentContext current(device);
    stream.synchronize();
    for (const CUdeviceptr at : all_) entry<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(at);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Null for no bytes.
  std::byte* allocate(size_t bytes) {
    if (bytes == 0) return nullptr;
    const CurrentContext current(device);
    CUdeviceptr at = 0;
    EXPECT_EQ(entry<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&at, bytes), CUDA_SUCCESS);
    all_.push_back(at);
    return reinterpret_cast<std::byte*>(at);
  }
  // In the stream, where the host's bytes are taken at once.
  void write(std::byte* to, const std::vector<std::byte>& bytes) {
    const CurrentContext current(device);
    if (!bytes.empty())
      EXPECT_EQ(driver().memory.copy_to_device(reinterpret_cast<CUdeviceptr>(to), bytes.data(),
                                               bytes.size(), stream.get()),
                CUDA_SUCCESS);
  }
  std::byte* written(const std::vector<std::byte>& bytes) {
    std::byte* const at = allocate(bytes.size());
    write(at, bytes);
    return at;
  }
  // After all that is in the stream.
  std::vector<std::byte> read(const std::byte* from, size_t bytes) {
    const CurrentContext current(device);
    std::vector<std::byte> read(bytes);
    if (bytes > 0)
      EXPECT_EQ(driver().memory.copy_to_host(read.data(), reinterpret_cast<CUdeviceptr>(from),
                                             bytes, stream.get()),
                CUDA_SUCCESS);
    stream.synchronize();
    return read;
  }
  // What is put into the stream from now on waits until `gate` is true.
  void hold_back(std::atomic<bool>& gate) {
    const CurrentContext current(device);
    const auto wait = [](void* its_gate) {
      while (!static_cast<std::atomic<bool>*>(its_gate)->load()) std::this_thread::yield();
    };
    EXPECT_EQ(driver().stream.host_function(stream.get(), wait, &gate), CUDA_SUCCESS);
  }
  CallOptions call() const {
    CallOptions options;
    options.on = {device.ordinal(), stream.get()};
    return options;
  }

  const Device device;
  Stream stream;

 private:
  std::vector<CUdeviceptr> all_;
};

inline Options on_double(const std::string& transports, int rank) {
  Options options = unhurried_for(transports, rank);
  options.cuda.library = CUDA_DOUBLE;
  options.in_flight = 3;
  return options;
}

// Small integers, as every type has them exactly.
inline std::vector<std::byte> numbers(DataType type, size_t count, int seed) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (size_t i = 0; i < count; ++i)
    put_value(bytes.data(), i, type,
              static_cast<double>((i * 7 + static_cast<size_t>(seed) * 3) % 4));
  return bytes;
}

// Ranks as threads, each with a program of its own. Nothing of CUDA is left at the end.
class DeviceGroups : public OnTransport {
 protected:
  void SetUp() override {
    OnTransport::SetUp();
    (void)driver();
  }
  void TearDown() override { EXPECT_EQ(left(), ""); }
  void run(int n, const std::function<void(Communicator&, Program&)>& body) {
    run_ranks(
        n, [&](int rank) { return on_double(GetParam(), rank); },
        [&](Communicator& group) {
          Program program(group.rank());
          body(group, program);
        });
  }
};

}  // namespace ringwood::testing

// For tests: the gates and copies of a device of a fresh double, with a user's stream and doorbell.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cuda/device_memory.h"
#include "transports/cuda/copies.h"

namespace ringwood::cuda {

class DeviceCopiesTest : public DeviceMemory {
 protected:
  DeviceCopiesTest() { make(); }
  ~DeviceCopiesTest() override { ::close(doorbell); }
  void TearDown() override {
    cuda.pause(false);
    end();
    user.reset();
    pinned.reset();
    if (on_device != 0) free(on_device);
    if (on_host) arena.release(on_host);
    DeviceMemory::TearDown();
  }
  void make() {
    if (!cuda.loaded()) return;
    on_device = allocate(kBytes);
    on_host = static_cast<std::byte*>(arena.allocate(kBytes));
    EXPECT_TRUE(pinned->pin(on_host, kBytes));
    begin();
  }
  void begin(Copies::Ticket begun = 0) {
    gates.emplace(*device, arena, *pinned, bell);
    copies.emplace(*device, arena, *pinned, *gates, bell, begun);
  }
  void end() {
    if (!copies) return;
    EXPECT_TRUE(copies->idle_by(testing::patiently()) && gates->passed_by(testing::patiently()));
    copies.reset();
    gates.reset();
  }
  uint64_t rings() const {
    uint64_t rung = 0;
    return ::read(doorbell, &rung, sizeof rung) == sizeof rung ? rung : 0;
  }
  // What comes after it in the stream waits until that is true.
  void hold_back(const Stream& stream, std::atomic<bool>& open) {
    const CurrentContext current(*device);
    const auto wait = [](void* gate) {
      while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::yield();
    };
    ASSERT_EQ(driver.stream.host_function(stream.get(), wait, &open), CUDA_SUCCESS);
  }
  Result<Copies::Operation> enter(const Stream& stream) {
    auto operation = gates->enter(stream.get());
    if (!operation) return operation;
    Status held = gates->hold_back(stream.get(), *operation);
    if (held) return operation;
    copies->abandon(*operation);
    return std::move(held.error());
  }
  void await_come(Copies::Operation operation) {
    await([&] { return copies->has_come(operation); });
  }
  void* at(size_t offset) const { return reinterpret_cast<void*>(on_device + offset); }
  void write_in(CUstream stream, size_t offset, unsigned char byte) {
    const CurrentContext current(*device);
    using Fill = CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream);
    ASSERT_EQ(cuda.symbol<Fill>("cuMemsetD8Async")(on_device + offset, byte, 8, stream),
              CUDA_SUCCESS);
  }
  template <class Done>
  static void await(Done done) {
    const Deadline deadline = testing::patiently();
    while (!done() && !deadline.passed()) std::this_thread::yield();
    EXPECT_TRUE(done());
  }
  // A call that doubles what lies in the device: the driver's part.
  void carry_out(Copies::Operation operation) {
    await_come(operation);
    auto out = copies->copy_out(on_host, at(0), 8);
    ASSERT_TRUE(out);
    await([&] { return copies->out_done(*out); });
    uint64_t number = 0;
    std::memcpy(&number, on_host, 8);
    number *= 2;
    std::memcpy(on_host, &number, 8);
    ASSERT_TRUE(copies->copy_in(at(0), on_host, 8));
    ASSERT_TRUE(copies->end(operation));
  }

  Arena& arena = *Arena::of_process();
  const int doorbell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  static constexpr size_t kBytes = size_t{1} << 16;
  std::optional<PinnedBlocks> pinned{std::in_place, arena, *device, size_t{64} << 20};
  std::optional<Stream> user{std::in_place, *device};
  CUdeviceptr on_device = 0;
  std::byte* on_host = nullptr;
  const Doorbell bell{doorbell};
  std::optional<Gates> gates;
  std::optional<Copies> copies;
};

}  // namespace ringwood::cuda

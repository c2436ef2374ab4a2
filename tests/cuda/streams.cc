// Streams and events: the product's handles on the double, which keeps the order that NVIDIA
// describes and no more.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cuda/device_memory.h"
#include "tests/support/errors.h"

namespace ringwood::cuda {
namespace {

using testing::patiently;

// What comes after it on a stream waits until it is opened.
class Gate {
 public:
  void close(const Device& device, CUstream stream) {
    const CurrentContext current(device);
    const auto wait = [](void* gate) {
      while (!static_cast<Gate*>(gate)->open_) std::this_thread::yield();
    };
    ASSERT_EQ(device.driver().stream.host_function(stream, wait, this), CUDA_SUCCESS);
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

class Streams : public DeviceMemory {
 protected:
  Streams() : numbers(allocate(512)) {
    for (int i = 0; i < 3; ++i) write(at(i), 0);
  }
  void TearDown() override {
    gate.open();  // a test that failed may have left it closed
    free(numbers);
    DeviceMemory::TearDown();
  }
  CUdeviceptr at(int i) const { return numbers + 8 * static_cast<CUdeviceptr>(i); }
  uint64_t value(int i) { return read(at(i)); }
  void close_gate(const Stream& stream) { gate.close(*device, stream.get()); }
  void set(const Stream& stream, int i, unsigned char byte) {
    const CurrentContext current(*device);
    using Fill = CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream);
    ASSERT_EQ(cuda.symbol<Fill>("cuMemsetD8Async")(at(i), byte, 1, stream.get()), CUDA_SUCCESS);
  }
  void copy(CUstream stream, int to, int from) {
    const CurrentContext current(*device);
    using Copy = CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    ASSERT_EQ(cuda.symbol<Copy>("cuMemcpyDtoDAsync_v2")(at(to), at(from), 8, stream), CUDA_SUCCESS);
  }

  Gate gate;
  const CUdeviceptr numbers;
};

TEST_F(Streams, KeepTheirOrderAndNoOther) {
  Stream one(*device), other(*device);
  close_gate(one);
  set(one, 0, 7);
  set(other, 1, 5);
  other.synchronize();
  EXPECT_EQ(value(1), 5u);
  EXPECT_FALSE(one.idle());
  EXPECT_EQ(value(0), 0u);
  gate.open();
  one.synchronize();
  EXPECT_TRUE(one.idle());
  EXPECT_EQ(value(0), 7u);
}

TEST_F(Streams, WaitForEventsOfOthersWithoutTheHost) {
  Stream one(*device), other(*device);
  Event event(*device);
  EXPECT_TRUE(event.done());
  close_gate(one);
  set(one, 0, 7);
  event.record(one.get());
  other.wait(event);
  copy(other.get(), 1, 0);
  EXPECT_FALSE(event.done());
  EXPECT_FALSE(other.idle());
  gate.open();
  other.synchronize();
  EXPECT_EQ(value(1), 7u);
  EXPECT_TRUE(event.done());
}

// A wait is for what the event had recorded when it was asked for.
TEST_F(Streams, AnEventMayBeRecordedAgainAndDestroyedEarly) {
  Stream one(*device), other(*device), third(*device);
  {
    Event event(*device);
    close_gate(one);
    set(one, 0, 7);
    event.record(one.get());
    other.wait(event);
    event.record(third.get());
    event.synchronize();
  }
  copy(other.get(), 1, 0);
  EXPECT_FALSE(other.idle());
  gate.open();
  other.synchronize();
  EXPECT_EQ(value(1), 7u);
}

TEST_F(Streams, AStreamMayBeDestroyedWithWork) {
  {
    Stream stream(*device);
    close_gate(stream);
    set(stream, 0, 7);
  }
  EXPECT_EQ(value(0), 0u);
  gate.open();
  const Deadline deadline = patiently();
  while (value(0) != 7 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(value(0), 7u);
}

TEST_F(Streams, TheDefaultStreamWaitsForBlockingOnes) {
  CUstream blocking = nullptr;
  {
    const CurrentContext current(*device);
    ASSERT_EQ(driver.stream.create(&blocking, CU_STREAM_DEFAULT, 0), CUDA_SUCCESS);
  }
  gate.close(*device, blocking);
  Stream apart(*device);
  set(apart, 0, 3);
  apart.synchronize();
  copy(nullptr, 1, 0);
  copy(blocking, 2, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // for it to go wrong
  EXPECT_EQ(value(1), 0u);
  gate.open();
  const CurrentContext current(*device);
  EXPECT_EQ(driver.stream.synchronize(blocking), CUDA_SUCCESS);
  EXPECT_EQ(value(2), 3u);
  EXPECT_EQ(driver.stream.destroy(blocking), CUDA_SUCCESS);
}

// A stream goes on once a word is at a value or past it, also where the count has begun anew.
TEST_F(Streams, WaitForWordsThatTheHostOrAStreamWrites) {
  for (const uint32_t value : {7u, 0xffffffffu, 3u}) {
    Stream one(*device), other(*device);
    write(at(0), value - 1);
    write(at(1), 0);
    const CurrentContext current(*device);
    ASSERT_EQ(driver.stream.wait_value(one.get(), at(0), value, kWaitAtLeast), CUDA_SUCCESS);
    set(one, 1, 5);
    EXPECT_EQ(this->value(1), 0u);
    EXPECT_FALSE(one.idle());
    ASSERT_EQ(driver.stream.write_value(other.get(), at(0), value + 1, kWriteInOrder),
              CUDA_SUCCESS);
    one.synchronize();
    EXPECT_EQ(this->value(1), 5u) << value;
  }
}

TEST_F(Streams, BeginNothingWhileTheDoubleIsPaused) {
  Stream stream(*device);
  cuda.pause(true);
  Event event(*device);
  event.record(stream.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for it to go wrong
  EXPECT_FALSE(event.done());
  cuda.pause(false);
  event.synchronize();
}

TEST_F(Streams, AreNotDisturbedByTheCaptureOfAnother) {
  Stream captured(*device);
  Event event(*device);
  const auto begin =
      cuda.symbol<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = cuda.symbol<CUresult (*)(CUstream, void**)>("cuStreamEndCapture");
  const CurrentContext current(*device);
  void* graph = nullptr;
  ASSERT_EQ(begin(captured.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([&] { EXPECT_TRUE(event.done()); }).join();  // it says that it is beside it
  CUstreamCaptureStatus status{};
  EXPECT_EQ(driver.stream.is_capturing(captured.get(), &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(end(captured.get(), &graph), CUDA_SUCCESS);
  ASSERT_EQ(begin(captured.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  std::thread([&] {
    const CurrentContext here(*device);
    EXPECT_EQ(driver.event.query(event.get()), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  EXPECT_EQ(end(captured.get(), &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace ringwood::cuda

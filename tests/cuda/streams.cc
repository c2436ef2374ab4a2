// Streams, events, kernels and graphs: the product's handles on the double, which keeps the order
// that NVIDIA describes and no more.
#include "transports/cuda/handles.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/cuda/fresh_double.h"
#include "tests/cuda/test_kernels.h"
#include "tests/support/errors.h"
#include "transports/cuda/memory.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::error_of;
using testing::FreshDouble;
using testing::patiently;

class Streams : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cuda.loaded()) << cuda.error().cause; }
  void TearDown() override {
    open_gate();  // a test that failed may have left it closed
    numbers.reset();
    module.reset();
    device.reset();
    EXPECT_EQ(cuda.left(), "");
  }

  uint64_t* number(int i) { return reinterpret_cast<uint64_t*>(numbers->data()) + i; }
  CUdeviceptr on_device(int i) { return numbers->on_device() + 8 * i; }
  uint64_t value(int i) {
    return std::atomic_ref<uint64_t>(*number(i)).load(std::memory_order_acquire);
  }
  void open_gate() {
    std::atomic_ref<uint64_t>(*number(kGate)).store(1, std::memory_order_release);
  }

  CUresult launch(const char* name, CUstream stream, uint64_t* parameter, unsigned blocks = 1,
                  unsigned threads = 128) {
    const CurrentContext current(*device);
    void* parameters[] = {&parameter};
    return cuda.driver().kernel.launch(module->function(name), blocks, 1, 1, threads, 1, 1, 0,
                                       stream, parameters, nullptr);
  }
  // What comes after it on the stream waits for open_gate().
  void close_gate(const Stream& stream) {
    ASSERT_EQ(launch("gate", stream.get(), number(kGate)), CUDA_SUCCESS);
  }
  void set(const Stream& stream, int i, unsigned char byte) {
    const CurrentContext current(*device);
    ASSERT_EQ(cuda.driver().memory.fill(on_device(i), byte, 1, stream.get()), CUDA_SUCCESS);
  }
  void copy(CUstream stream, int to, int from) {
    const CurrentContext current(*device);
    ASSERT_EQ(cuda.driver().memory.copy(on_device(to), on_device(from), 8, stream), CUDA_SUCCESS);
  }

  static constexpr int kGate = 63;
  const FreshDouble cuda;
  std::optional<Device> device{std::in_place, cuda.driver(), 0};
  std::optional<PinnedMemory> numbers{std::in_place, *device, 512};
  std::optional<Module> module{std::in_place, *device, "// test\n.version 9.0\n.target sm_90\n"};
};

TEST_F(Streams, KeepTheirOrderAndNoOther) {
  Stream one(*device), other(*device, Stream::Priority::high);
  close_gate(one);
  set(one, 0, 7);
  set(other, 1, 5);
  other.synchronize();
  EXPECT_EQ(value(1), 5u);
  EXPECT_FALSE(one.idle());
  EXPECT_EQ(value(0), 0u);
  open_gate();
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
  open_gate();
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
  open_gate();
  other.synchronize();
  EXPECT_EQ(value(1), 7u);
}

TEST_F(Streams, AStreamMayBeDestroyedWithWork) {
  {
    Stream stream(*device);
    close_gate(stream);
    ASSERT_EQ(launch("count", stream.get(), number(0)), CUDA_SUCCESS);
  }
  EXPECT_EQ(value(0), 0u);
  open_gate();
  const Deadline deadline = patiently();
  while (value(0) != 2 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(value(0), 2u);
}

TEST_F(Streams, TheDefaultStreamWaitsForBlockingOnes) {
  const Driver& driver = cuda.driver();
  CUstream blocking = nullptr;
  {
    const CurrentContext current(*device);
    ASSERT_EQ(driver.stream.create(&blocking, CU_STREAM_DEFAULT, 0), CUDA_SUCCESS);
  }
  ASSERT_EQ(launch("gate", blocking, number(kGate)), CUDA_SUCCESS);
  Stream apart(*device);
  set(apart, 0, 3);
  apart.synchronize();
  copy(nullptr, 1, 0);
  copy(blocking, 2, 1);
  const CurrentContext current(*device);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // for it to go wrong
  EXPECT_EQ(driver.stream.query(nullptr), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(value(1), 0u);
  open_gate();
  EXPECT_EQ(driver.stream.synchronize(blocking), CUDA_SUCCESS);
  EXPECT_EQ(value(2), 3u);
  EXPECT_EQ(driver.stream.destroy(blocking), CUDA_SUCCESS);
}

TEST_F(Streams, HostFunctionsRunInOrder) {
  Stream stream(*device);
  set(stream, 0, 7);
  struct Seen {
    uint64_t* from;
    uint64_t seen = 0;
  } seen{number(0)};
  {
    const CurrentContext current(*device);
    const auto look = [](void* data) {
      auto& to = *static_cast<Seen*>(data);
      to.seen = *to.from;
    };
    ASSERT_EQ(cuda.driver().stream.host_function(stream.get(), look, &seen), CUDA_SUCCESS);
  }
  set(stream, 0, 9);
  stream.synchronize();
  EXPECT_EQ(seen.seen, 7u);
  EXPECT_EQ(value(0), 9u);
}

TEST_F(Streams, TimeIsTakenBetweenEvents) {
  Stream stream(*device);
  Event start(*device, Event::Timing::on), end(*device, Event::Timing::on), plain(*device);
  start.record(stream.get());
  close_gate(stream);
  end.record(stream.get());
  EXPECT_PRED2(contains, error_of([&] { end.milliseconds_since(start); }).cause, "NOT_READY");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  open_gate();
  end.synchronize();
  EXPECT_GE(end.milliseconds_since(start), 10.f);
  plain.record(stream.get());
  plain.synchronize();
  EXPECT_PRED2(contains, error_of([&] { plain.milliseconds_since(start); }).cause,
               "CUDA_ERROR_INVALID_HANDLE");
}

TEST_F(Streams, AllBlocksOfALaunchRunTogether) {
  Stream stream(*device);
  ASSERT_EQ(launch("meet", stream.get(), number(0), 8), CUDA_SUCCESS);
  ASSERT_EQ(launch("count", stream.get(), number(1), 3), CUDA_SUCCESS);
  ASSERT_EQ(launch("count", stream.get(), number(1), 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(launch("shared", stream.get(), number(2), 4), CUDA_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(value(0), 8u * 2);
  EXPECT_EQ(value(1), 3u * 2 + 1);  // no more threads than the launch has
  EXPECT_EQ(value(2), 4u * (1 + 2));
}

TEST_F(Streams, AKernelThatIsNotThereIsNamed) {
  const Error error = error_of([&] { module->function("run_f64"); });
  EXPECT_PRED2(contains, error.cause, "cuModuleGetFunction of run_f64 on device 0");
  EXPECT_PRED2(contains, error.cause, "CUDA_ERROR_NOT_FOUND");
  EXPECT_PRED2(contains, error_of([&] { Module(*device, "// no text of PTX"); }).cause,
               "cuModuleLoadData on device 0: CUDA_ERROR_INVALID_IMAGE");
}

}  // namespace
}  // namespace ringwood::cuda

// Capture into graphs and their replay, and what a capture forbids.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/cuda/fresh_double.h"
#include "tests/cuda/test_kernels.h"
#include "transports/cuda/handles.h"
#include "transports/cuda/memory.h"

namespace ringwood::cuda {
namespace {

using testing::FreshDouble;

class Graphs : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cuda.loaded()) << cuda.error().cause; }
  void TearDown() override {
    stream.reset();
    other.reset();
    module.reset();
    numbers.reset();
    device.reset();
    EXPECT_EQ(cuda.left(), "");
  }

  CUresult count(CUstream on, int i) {
    const CurrentContext current(*device);
    uint64_t* to = reinterpret_cast<uint64_t*>(numbers->data()) + i;
    void* parameters[] = {&to};
    return driver.kernel.launch(counting, 1, 1, 1, 1, 1, 1, 0, on, parameters, nullptr);
  }
  uint64_t value(int i) const { return reinterpret_cast<uint64_t*>(numbers->data())[i]; }

  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    const CurrentContext current(*device);
    ASSERT_EQ(driver.graph.begin_capture(stream->get(), mode), CUDA_SUCCESS);
  }
  CUresult end(CUgraph* graph) {
    const CurrentContext current(*device);
    return driver.graph.end_capture(stream->get(), graph);
  }
  CUstreamCaptureStatus status(CUstream of) {
    const CurrentContext current(*device);
    CUstreamCaptureStatus told = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(driver.stream.is_capturing(of, &told), CUDA_SUCCESS);
    return told;
  }
  // Ends the capture, and replays what it was.
  void replay(int times) {
    const CurrentContext current(*device);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_EQ(end(&graph), CUDA_SUCCESS);
    ASSERT_EQ(driver.graph.instantiate(&executable, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver.graph.destroy(graph), CUDA_SUCCESS);
    for (int i = 0; i < times; ++i)
      ASSERT_EQ(driver.graph.launch(executable, stream->get()), CUDA_SUCCESS);
    EXPECT_EQ(driver.graph.destroy_executable(executable), CUDA_SUCCESS);
    stream->synchronize();
  }
  void expect_broken() {
    CUgraph graph = nullptr;
    EXPECT_EQ(status(stream->get()), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(stream->get()), CU_STREAM_CAPTURE_STATUS_NONE);
  }

  const FreshDouble cuda;
  const Driver& driver = cuda.driver();
  std::optional<Device> device{std::in_place, driver, 0};
  std::optional<PinnedMemory> numbers{std::in_place, *device, 64};
  std::optional<Module> module{std::in_place, *device, "image"};
  std::optional<Stream> stream{std::in_place, *device}, other{std::in_place, *device};
  CUfunction counting = module->function("count");
};

TEST_F(Graphs, ACaptureRecordsAndAReplayRuns) {
  begin();
  EXPECT_EQ(status(stream->get()), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count(stream->get(), 0), CUDA_SUCCESS);
  ASSERT_EQ(count(stream->get(), 0), CUDA_SUCCESS);
  EXPECT_EQ(value(0), 0u);
  replay(5);
  EXPECT_EQ(value(0), 10u);
  EXPECT_EQ(status(stream->get()), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Graphs, CaptureInfoHasAnIdOfItsOwn) {
  const CurrentContext current(*device);
  uint64_t ids[2] = {};
  for (uint64_t& id : ids) {
    begin();
    CUstreamCaptureStatus told = CU_STREAM_CAPTURE_STATUS_NONE;
    ASSERT_EQ(driver.stream.capture_info(stream->get(), &told, &id, nullptr, nullptr, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(told, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    replay(0);
  }
  EXPECT_NE(ids[0], ids[1]);
}

// The other stream's kernel waits at a gate that a kernel of the first one's branch opens.
TEST_F(Graphs, BranchesOfStreamsRunTogether) {
  CUfunction gate = module->function("gate");
  Event fork(*device), join(*device);
  begin();
  fork.record(stream->get());
  other->wait(fork);
  {
    const CurrentContext current(*device);
    auto* opened = reinterpret_cast<uint64_t*>(numbers->data());
    void* parameters[] = {&opened};
    ASSERT_EQ(driver.kernel.launch(gate, 1, 1, 1, 1, 1, 1, 0, other->get(), parameters, nullptr),
              CUDA_SUCCESS);
  }
  EXPECT_EQ(status(other->get()), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count(stream->get(), 0), CUDA_SUCCESS);
  join.record(other->get());
  stream->wait(join);
  ASSERT_EQ(count(stream->get(), 1), CUDA_SUCCESS);
  replay(1);
  EXPECT_EQ(value(1), 1u);
}

TEST_F(Graphs, ABranchThatIsNotJoinedIsAnError) {
  Event fork(*device);
  begin();
  fork.record(stream->get());
  other->wait(fork);
  ASSERT_EQ(count(other->get(), 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(end(&graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(status(other->get()), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Graphs, CapturesWaitForNothingOutside) {
  Event outside(*device);
  outside.record(other->get());
  begin();
  const CurrentContext current(*device);
  EXPECT_EQ(driver.stream.wait_event(stream->get(), outside.get(), 0),
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_broken();
}

TEST_F(Graphs, SynchronisingACapturedStreamBreaksIt) {
  begin();
  const CurrentContext current(*device);
  EXPECT_EQ(driver.stream.synchronize(stream->get()), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_broken();
}

TEST_F(Graphs, ACapturedEventIsNoEventOfTheHosts) {
  Event event(*device);
  begin();
  event.record(stream->get());
  const CurrentContext current(*device);
  EXPECT_EQ(driver.event.query(event.get()), CUDA_ERROR_CAPTURED_EVENT);
  replay(0);
}

// What the driver does: a plain query on the side breaks a capture in the global mode.
TEST_F(Graphs, AQueryOfAnotherThreadBreaksAGlobalCapture) {
  Event event(*device);
  event.record(other->get());
  event.synchronize();
  begin();
  std::thread([&] {
    const CurrentContext current(*device);
    EXPECT_EQ(driver.event.query(event.get()), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  expect_broken();
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    const CurrentContext current(*device);
    EXPECT_EQ(driver.event.query(event.get()), CUDA_SUCCESS);
  }).join();
  replay(0);
}

// Ours do not.
TEST_F(Graphs, WhatIsDoneOnTheSideBreaksNoCapture) {
  Event event(*device);
  event.record(other->get());
  begin();
  std::async(std::launch::async, [&] {
    event.synchronize();
    EXPECT_TRUE(event.done());
    PinnedMemory pinned(*device, 100);
    Module another(*device, "image");
    EXPECT_NE(another.function("count"), nullptr);
  }).get();
  EXPECT_EQ(status(stream->get()), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count(stream->get(), 0), CUDA_SUCCESS);
  replay(1);
  EXPECT_EQ(value(0), 1u);
}

}  // namespace
}  // namespace ringwood::cuda

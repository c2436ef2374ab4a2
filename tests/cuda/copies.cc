// Copies between a device and pinned memory, in the order of streams and never in that of the host.
#include "transports/cuda/copies.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cuda/device_memory.h"
#include "tests/support/errors.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::patiently;

class CopiesTest : public DeviceMemory {
 protected:
  CopiesTest() { make(); }
  ~CopiesTest() override { ::close(doorbell); }
  void TearDown() override {
    cuda.pause(false);
    copies.reset();
    gates.reset();
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
    gates.emplace(*device, arena, *pinned);
    copies.emplace(*device, arena, *pinned, *gates, doorbell);
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
    const Deadline deadline = patiently();
    while (!done() && !deadline.passed()) std::this_thread::yield();
    EXPECT_TRUE(done());
  }
  // A call that doubles what lies in the device: the driver's part, from the begin to the end.
  void carry_out(Copies::Operation operation) {
    ASSERT_TRUE(copies->begin(operation));
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
  std::optional<Gates> gates;
  std::optional<Copies> copies;
};

TEST_F(CopiesTest, ComeAfterWhatIsInTheStreamAndBeforeWhatFollows) {
  write(on_device, 0);
  write_in(user->get(), 0, 1);
  auto operation = gates->enter(user->get());
  ASSERT_TRUE(operation);
  // Behind it in the stream: it sees what the operation has written, on the device.
  const CurrentContext current(*device);
  using Copy = CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  ASSERT_EQ(cuda.symbol<Copy>("cuMemcpyDtoDAsync_v2")(on_device + 64, on_device, 8, user->get()),
            CUDA_SUCCESS);
  EXPECT_FALSE(user->idle());
  carry_out(*operation);
  user->synchronize();
  EXPECT_EQ(read(on_device), 2 * 0x0101010101010101u);
  EXPECT_EQ(read(on_device + 64), 2 * 0x0101010101010101u);
}

TEST_F(CopiesTest, NothingBlocksTheHostWhileTheDeviceIsHeldBack) {
  write(on_device, 5);
  cuda.pause(true);
  auto operation = gates->enter(user->get());
  ASSERT_TRUE(operation);
  ASSERT_TRUE(copies->begin(*operation));
  auto out = copies->copy_out(on_host, at(0), 8);
  auto in = copies->copy_in(at(64), on_host + 64, 8);
  ASSERT_TRUE(out && in);
  ASSERT_TRUE(copies->end(*operation));
  ASSERT_TRUE(copies->ring_when_done());
  EXPECT_FALSE(copies->out_done(*out));
  EXPECT_FALSE(copies->in_done(*in));
  uint64_t rings = 0;
  EXPECT_LT(::read(doorbell, &rings, sizeof rings), 0);
  cuda.pause(false);
  user->synchronize();
  bool rung = false;
  await([&] { return rung = rung || ::read(doorbell, &rings, sizeof rings) == sizeof rings; });
  await([&] { return copies->out_done(*out) && copies->in_done(*in); });
}

// Also where nothing is copied out before, as of a broadcast's receivers.
TEST_F(CopiesTest, CopiesInComeAfterWhatIsInTheStreamByThemselves) {
  std::atomic<bool> open{false};
  {
    const CurrentContext current(*device);
    const auto wait = [](void* gate) {
      while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::yield();
    };
    ASSERT_EQ(driver.stream.host_function(user->get(), wait, &open), CUDA_SUCCESS);
  }
  auto operation = gates->enter(user->get());
  ASSERT_TRUE(operation);
  ASSERT_TRUE(copies->begin(*operation));
  auto in = copies->copy_in(at(0), on_host, 8);
  ASSERT_TRUE(in);
  ASSERT_TRUE(copies->end(*operation));
  ASSERT_TRUE(copies->ring_when_done());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for it to go wrong
  EXPECT_FALSE(copies->in_done(*in));
  open = true;
  // Of both directions: the one that copies nothing now may be what the driver waits for.
  uint64_t rings = 0;
  await([&] {
    uint64_t more = 0;
    if (::read(doorbell, &more, sizeof more) == sizeof more) rings += more;
    return rings >= 2;
  });
  EXPECT_TRUE(copies->in_done(*in));
}

// One that waits for its stream does not delay another's end.
TEST_F(CopiesTest, AnAbandonedOperationReleasesItsStreamAtOnce) {
  Stream other(*device);
  auto stuck = gates->enter(user->get());
  auto behind = gates->enter(other.get());
  ASSERT_TRUE(stuck && behind);
  // The device's streams now wait for a stream that waits.
  auto never = gates->enter(user->get());
  ASSERT_TRUE(never);
  ASSERT_TRUE(copies->begin(*never));
  ASSERT_TRUE(copies->begin(*behind));
  ASSERT_TRUE(copies->end(*behind));
  EXPECT_FALSE(other.idle());
  std::thread([&] {
    copies->abandon(*stuck);
    copies->abandon(*never);
  }).join();
  user->synchronize();
  other.synchronize();
}

TEST_F(CopiesTest, WordsAreUsedAgainAndAddedWhereManyOperationsWait) {
  constexpr int kMany = 3000;
  std::vector<Copies::Operation> all;
  for (int i = 0; i < kMany; ++i) {
    auto entered = gates->enter(user->get());
    ASSERT_TRUE(entered);
    all.push_back(*entered);
  }
  for (const Copies::Operation operation : all) {
    ASSERT_TRUE(copies->begin(operation));
    ASSERT_TRUE(copies->end(operation));
  }
  user->synchronize();
  const size_t bytes = pinned->bytes();
  for (int i = 0; i < kMany; ++i) {
    auto entered = gates->enter(user->get());
    ASSERT_TRUE(entered);
    ASSERT_TRUE(copies->begin(*entered));
    if (i % 3 == 0)
      copies->abandon(*entered);
    else
      EXPECT_TRUE(copies->end(*entered));
    if (i % 100 == 0) user->synchronize();
  }
  user->synchronize();
  EXPECT_EQ(pinned->bytes(), bytes);
}

// Calls by several threads, carried out by one, on a device that is late at random.
TEST(Copies, OfManyThreadsKeepTheOrderOfTheirStreams) {
  for (const char* seed : {"1", "2", "3"}) {
    const testing::FreshDouble cuda({{"FAKE_CUDA_DELAY", seed}});
    ASSERT_TRUE(cuda.loaded());
    const Device device(cuda.driver(), 0);
    Arena& arena = *Arena::of_process();
    PinnedBlocks pinned(arena, device, size_t{64} << 20);
    constexpr int kThreads = 3, kCalls = 40;
    auto* const host = static_cast<std::byte*>(arena.allocate(kThreads * 64));
    ASSERT_TRUE(pinned.pin(host, kThreads * 64));
    CUdeviceptr memory = 0;
    {
      const CurrentContext current(device);
      ASSERT_EQ(
          cuda.symbol<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&memory, kThreads * 64),
          CUDA_SUCCESS);
    }
    {
      Gates gates(device, arena, pinned);
      Copies copies(device, arena, pinned, gates, -1);
      std::vector<std::unique_ptr<Stream>> streams;
      for (int t = 0; t < kThreads; ++t) streams.push_back(std::make_unique<Stream>(device));
      struct Call {
        int thread;
        Copies::Operation operation;
      };
      std::mutex mutex;
      std::vector<Call> calls;
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          const CurrentContext current(device);
          using Fill = CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream);
          const auto fill = cuda.symbol<Fill>("cuMemsetD8Async");
          for (int i = 0; i < kCalls; ++i) {
            // Overwritten by the call, unless that came before.
            fill(memory + t * 64, static_cast<unsigned char>(i), 1, streams[t]->get());
            auto entered = gates.enter(streams[t]->get());
            ASSERT_TRUE(entered);
            const std::lock_guard lock(mutex);
            calls.push_back({t, *entered});
          }
        });
      for (size_t done = 0; done < kThreads * kCalls;) {
        std::unique_lock lock(mutex);
        if (done == calls.size()) {
          lock.unlock();
          std::this_thread::yield();
          continue;
        }
        const Call call = calls[done++];
        lock.unlock();
        std::byte* const to = host + call.thread * 64;
        void* const at = reinterpret_cast<void*>(memory + call.thread * 64);
        ASSERT_TRUE(copies.begin(call.operation));
        auto out = copies.copy_out(to, at, 1);
        ASSERT_TRUE(out);
        while (!copies.out_done(*out)) std::this_thread::yield();
        static int seen[kThreads];
        if (done == 1) std::fill(std::begin(seen), std::end(seen), 0);
        EXPECT_EQ(static_cast<int>(*to), seen[call.thread]++) << "thread " << call.thread;
        *to = std::byte{0xff};
        ASSERT_TRUE(copies.copy_in(at, to, 1));
        ASSERT_TRUE(copies.end(call.operation));
      }
      for (std::thread& thread : threads) thread.join();
      for (const auto& stream : streams) stream->synchronize();
    }
    arena.release(host);
    const CurrentContext current(device);
    EXPECT_EQ(cuda.symbol<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(memory), CUDA_SUCCESS);
  }
}

// Whichever call fails, the error names it, and no stream is left waiting.
TEST_F(CopiesTest, EveryCallOfTheDriverMayFail) {
  // A whole operation. What went wrong, or nothing.
  const auto run = [&]() -> std::string {
    auto entered = gates->enter(user->get());
    if (!entered) return entered.error().cause;
    std::string cause;
    const auto works = [&cause](auto&& result) {
      if (!result) cause = result.error().cause;
      return result.ok();
    };
    if (works(copies->begin(*entered)) && works(copies->copy_out(on_host, at(0), 8)) &&
        works(copies->copy_in(at(64), on_host + 64, 8)) && works(copies->ring_when_done()))
      works(copies->end(*entered));
    else
      copies->abandon(*entered);
    return cause;
  };
  const char* const calls[] = {"cuStreamIsCapturing", "cuEventCreate",        "cuEventRecord",
                               "cuStreamWaitValue32", "cuStreamWaitEvent",    "cuMemcpyDtoHAsync",
                               "cuMemcpyHtoDAsync",   "cuStreamWriteValue32", "cuLaunchHostFunc"};
  for (const std::string call : calls)
    for (int nth = 1; nth <= 4; ++nth) {
      copies.reset();
      gates.emplace(*device, arena, *pinned);  // so that an event is made anew
      copies.emplace(*device, arena, *pinned, *gates, doorbell);
      cuda.fail(call + ":" + std::to_string(nth) + "=999");
      const std::string cause = run();
      cuda.fail("");
      user->synchronize();
      if (!cause.empty()) {
        EXPECT_PRED2(contains, cause, call + " on device 0: error 999");
      }
      EXPECT_TRUE(nth > 1 || !cause.empty()) << call;
    }
}

TEST_F(CopiesTest, ACapturedStreamIsRefusedAndNotDisturbed) {
  const auto begin =
      cuda.symbol<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = cuda.symbol<CUresult (*)(CUstream, void**)>("cuStreamEndCapture");
  {
    const CurrentContext current(*device);
    ASSERT_EQ(begin(user->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  auto refused = gates->enter(user->get());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_PRED2(contains, refused.error().cause, "captured into a CUDA graph");
  const CurrentContext current(*device);
  void* graph = nullptr;
  EXPECT_EQ(end(user->get(), &graph), CUDA_SUCCESS);
}

TEST_F(CopiesTest, TheCallersContextStaysAsItWas) {
  const auto ask = [&] {
    void* context = nullptr;
    EXPECT_EQ(cuda.symbol<CUresult (*)(void**)>("cuCtxGetCurrent")(&context), CUDA_SUCCESS);
    return context;
  };
  EXPECT_EQ(ask(), nullptr);
  auto operation = gates->enter(user->get());
  ASSERT_TRUE(operation);
  carry_out(*operation);
  EXPECT_EQ(ask(), nullptr);
  copies->abandon(*gates->enter(user->get()));
  EXPECT_EQ(ask(), nullptr);
}

}  // namespace
}  // namespace ringwood::cuda

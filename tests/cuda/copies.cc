// Copies between a device and pinned memory, in the order of streams and never in that of the host.
#include "transports/cuda/copies.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/cuda/device_copies_test.h"
#include "tests/support/errors.h"

namespace ringwood::cuda {
namespace {

using testing::contains;
using testing::patiently;

class CopiesTest : public DeviceCopiesTest {};

TEST_F(CopiesTest, ComeAfterWhatIsInTheStreamAndBeforeWhatFollows) {
  write(on_device, 0);
  write_in(user->get(), 0, 1);
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  // Behind it in the stream: it sees what the operation has written, on the device.
  const CurrentContext current(*device);
  using Copy = CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  ASSERT_EQ(cuda.symbol<Copy>("cuMemcpyDtoDAsync_v2")(on_device + 64, on_device, 8, user->get()),
            CUDA_SUCCESS);
  carry_out(*operation);
  user->synchronize();
  EXPECT_EQ(read(on_device), 2 * 0x0101010101010101u);
  EXPECT_EQ(read(on_device + 64), 2 * 0x0101010101010101u);
}

TEST_F(CopiesTest, NothingBlocksTheHostWhileTheDeviceIsHeldBack) {
  write(on_device, 5);
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  await_come(*operation);
  uint64_t rung = 0;
  await([&] { return (rung += rings()) == 1; });
  cuda.pause(true);
  auto out = copies->copy_out(on_host, at(0), 8);
  auto in = copies->copy_in(at(64), on_host + 64, 8);
  ASSERT_TRUE(out && in);
  ASSERT_TRUE(copies->ring_when_done());
  ASSERT_TRUE(copies->ring_when_done());  // rings once
  ASSERT_TRUE(copies->end(*operation));
  ASSERT_TRUE(copies->ring_when_done());  // nobody waits for the end
  EXPECT_FALSE(copies->out_done(*out));
  EXPECT_FALSE(copies->in_done(*in));
  EXPECT_EQ(rings(), 0u);
  cuda.pause(false);
  user->synchronize();
  rung = 0;
  await([&] { return (rung += rings()) == 2; });  // of each direction
  EXPECT_TRUE(copies->out_done(*out) && copies->in_done(*in));
  EXPECT_TRUE(copies->idle_by(patiently()));
  EXPECT_EQ(rings(), 0u);
}

TEST_F(CopiesTest, TicketsCountRound) {
  end();
  begin(0xfffffffeu);
  write(on_device, 1);
  for (uint64_t expected = 2; expected < 64; expected *= 2) {
    auto operation = enter(*user);
    ASSERT_TRUE(operation);
    carry_out(*operation);
    user->synchronize();
    EXPECT_EQ(read(on_device), expected);
  }
  // What is not done yet, is not, on either side.
  cuda.pause(true);
  auto operation = gates->enter(user->get());
  ASSERT_TRUE(operation);
  auto copy = copies->copy_out(on_host, at(0), 8);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copies->out_done(*copy));
  cuda.pause(false);
  ASSERT_TRUE(gates->hold_back(user->get(), *operation));
  await_come(*operation);
  ASSERT_TRUE(copies->end(*operation));
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
      const Doorbell bell(-1);
      Gates gates(device, arena, pinned, bell);
      Copies copies(device, arena, pinned, gates, bell);
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
            ASSERT_TRUE(gates.hold_back(streams[t]->get(), *entered));
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
        while (!copies.has_come(call.operation)) std::this_thread::yield();
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
      EXPECT_TRUE(copies.idle_by(patiently()));
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
    auto entered = enter(*user);
    if (!entered) return entered.error().cause;
    std::string cause;
    const auto works = [&cause](auto&& result) {
      if (!result) cause = result.error().cause;
      return result.ok();
    };
    await_come(*entered);
    if (works(copies->copy_out(on_host, at(0), 8)) &&
        works(copies->copy_in(at(64), on_host + 64, 8)) && works(copies->ring_when_done()))
      works(copies->end(*entered));
    else
      copies->abandon(*entered);
    return cause;
  };
  const char* const calls[] = {"cuStreamIsCapturing", "cuStreamWaitValue32",  "cuMemcpyDtoHAsync",
                               "cuMemcpyHtoDAsync",   "cuStreamWriteValue32", "cuLaunchHostFunc"};
  for (const std::string call : calls)
    for (int nth = 1; nth <= 4; ++nth) {
      end();
      begin();
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

TEST_F(CopiesTest, TheCallersContextStaysAsItWas) {
  const auto ask = [&] {
    void* context = nullptr;
    EXPECT_EQ(cuda.symbol<CUresult (*)(void**)>("cuCtxGetCurrent")(&context), CUDA_SUCCESS);
    return context;
  };
  EXPECT_EQ(ask(), nullptr);
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  carry_out(*operation);
  EXPECT_EQ(ask(), nullptr);
  copies->abandon(*enter(*user));
  EXPECT_EQ(ask(), nullptr);
}

}  // namespace
}  // namespace ringwood::cuda

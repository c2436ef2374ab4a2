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
  void begin() {
    gates.emplace(*device, arena, *pinned, bell);
    copies.emplace(*device, arena, *pinned, *gates, bell);
  }
  void end() {
    if (!copies) return;
    EXPECT_TRUE(copies->idle_by(patiently()) && gates->passed_by(patiently()));
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
    const Deadline deadline = patiently();
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

TEST_F(CopiesTest, AnOperationHasComeWhenAllBeforeItInTheStreamIsDone) {
  std::atomic<bool> open{false};
  hold_back(*user, open);
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for it to go wrong
  EXPECT_FALSE(copies->has_come(*operation));
  EXPECT_EQ(rings(), 0u);
  open = true;
  uint64_t rung = 0;
  await([&] { return (rung += rings()) == 1; });
  EXPECT_TRUE(copies->has_come(*operation));
  ASSERT_TRUE(copies->end(*operation));
}

TEST_F(CopiesTest, AnAbandonedOperationReleasesItsStreamAtOnce) {
  Stream other(*device);
  auto first = enter(*user);
  auto behind = enter(*user);  // which waits for the first
  auto beside = enter(other);
  ASSERT_TRUE(first && behind && beside);
  await_come(*first);
  await_come(*beside);
  EXPECT_FALSE(copies->has_come(*behind));
  ASSERT_TRUE(copies->end(*beside));
  other.synchronize();
  std::thread([&] {
    copies->abandon(*first);
    copies->abandon(*behind);
  }).join();
  user->synchronize();
}

// Not before the copies that were begun: they use what comes after.
TEST_F(CopiesTest, AnAbandonedOperationReleasesItsStreamBehindItsCopies) {
  for (const bool out : {true, false}) {
    auto operation = enter(*user);
    ASSERT_TRUE(operation);
    await_come(*operation);
    cuda.pause(true);
    auto copy = out ? copies->copy_out(on_host, at(0), 8) : copies->copy_in(at(0), on_host, 8);
    ASSERT_TRUE(copy);
    copies->abandon(*operation);
    EXPECT_FALSE(user->idle());
    cuda.pause(false);
    user->synchronize();
    EXPECT_TRUE(out ? copies->out_done(*copy) : copies->in_done(*copy));
  }
}

// The stream has yet to write that it has come, of an operation that is no more.
TEST_F(CopiesTest, TheWordsOfAnAbandonedOperationAreNotUsedBeforeItsStreamHasCome) {
  std::atomic<bool> open{false};
  hold_back(*user, open);
  auto gone = enter(*user);
  ASSERT_TRUE(gone);
  copies->abandon(*gone);
  Stream other(*device);
  auto next = enter(other);
  ASSERT_TRUE(next);
  await_come(*next);
  open = true;
  user->synchronize();
  EXPECT_TRUE(copies->has_come(*next));
  ASSERT_TRUE(copies->end(*next));
  other.synchronize();
}

TEST_F(CopiesTest, WordsAreUsedAgainAndAddedWhereManyOperationsWait) {
  constexpr int kMany = 3000;
  std::vector<Copies::Operation> all;
  for (int i = 0; i < kMany; ++i) {
    auto entered = enter(*user);
    ASSERT_TRUE(entered);
    all.push_back(*entered);
  }
  for (const Copies::Operation operation : all) {
    await_come(operation);
    ASSERT_TRUE(copies->end(operation));
  }
  user->synchronize();
  const size_t bytes = pinned->bytes();
  for (int i = 0; i < kMany; ++i) {
    auto entered = enter(*user);
    ASSERT_TRUE(entered);
    if (i % 3 != 0) await_come(*entered);
    if (i % 3 == 2)
      EXPECT_TRUE(copies->end(*entered));
    else
      copies->abandon(*entered);
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
  const char* const calls[] = {"cuStreamIsCapturing",  "cuEventCreate",     "cuEventRecord",
                               "cuStreamWaitValue32",  "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync",
                               "cuStreamWriteValue32", "cuLaunchHostFunc"};
  for (const std::string call : calls)
    for (int nth = 1; nth <= 4; ++nth) {
      end();
      begin();  // so that an event is made anew
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
  auto refused = enter(*user);
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
  auto operation = enter(*user);
  ASSERT_TRUE(operation);
  carry_out(*operation);
  EXPECT_EQ(ask(), nullptr);
  copies->abandon(*enter(*user));
  EXPECT_EQ(ask(), nullptr);
}

}  // namespace
}  // namespace ringwood::cuda

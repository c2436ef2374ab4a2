// send and recv of memory of devices, over every transport.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cuda/device_program.h"
#include "tests/support/errors.h"

namespace ringwood::testing {
namespace {

class DeviceMessages : public DeviceGroups {
 protected:
  static constexpr uint64_t kTag = 7;
  static OperationPtr send(Communicator& group, Program& program, const void* data, size_t bytes) {
    return group.send(data, bytes, DataType::uint8, 1 - group.rank(), kTag, program.call());
  }
  static OperationPtr recv(Communicator& group, Program& program, void* data, size_t bytes) {
    return group.recv(data, bytes, DataType::uint8, 1 - group.rank(), kTag, program.call());
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, DeviceMessages, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

std::vector<std::byte> bytes_of(size_t count, int seed) {
  return numbers(DataType::uint8, count, seed);
}

// Both ranks send first. What is put into the stream after a call comes after it: the buffer of a
// send is overwritten, and what was received is copied on, without a word from the host.
TEST_P(DeviceMessages, AreInTheOrderOfTheirStreams) {
  run(2, [&](Communicator& group, Program& program) {
    const size_t sizes[] = {1, 0, 100, 20'000, 300'000, 64, 1'500'000, 7};
    std::byte* const out = program.allocate(1'500'000);
    std::byte* const in = program.allocate(1'500'000);
    std::vector<std::byte*> kept;
    std::vector<OperationPtr> calls;
    int seed = 10 * group.rank();
    for (const size_t size : sizes) {
      program.write(out, bytes_of(size, ++seed));
      calls.push_back(send(group, program, out, size));
      program.write(out, bytes_of(size, 99));
      calls.push_back(recv(group, program, in, size));
      kept.push_back(program.allocate(size));
      const CurrentContext current(program.device);
      if (size > 0)
        EXPECT_EQ(driver().memory.copy_within_device(reinterpret_cast<CUdeviceptr>(kept.back()),
                                                     reinterpret_cast<CUdeviceptr>(in), size,
                                                     program.stream.get()),
                  CUDA_SUCCESS);
    }
    seed = 10 * (1 - group.rank());
    for (size_t i = 0; i < kept.size(); ++i)
      ASSERT_EQ(program.read(kept[i], sizes[i]), bytes_of(sizes[i], ++seed)) << sizes[i];
    for (const OperationPtr& call : calls) ASSERT_TRUE(call->wait());
    EXPECT_EQ(calls[1]->source(), 1 - group.rank());
  });
}

TEST_P(DeviceMessages, MatchInTheOrderOfTheCallsWhateverTheirStreamsDo) {
  std::atomic<bool> gate{false};
  run(2, [&](Communicator& group, Program& program) {
    std::vector<std::byte> host(100);
    if (group.rank() == 0) {
      std::byte* const slow = program.written(bytes_of(100, 1));
      program.hold_back(gate);
      const auto first = send(group, program, slow, 100);
      host = bytes_of(100, 2);
      const auto second = group.send(host.data(), 100, DataType::uint8, 1, kTag);
      EXPECT_TRUE(second->wait());
      EXPECT_FALSE(first->done());
      gate = true;
      EXPECT_TRUE(first->wait());
    } else {
      std::byte* const there = program.allocate(100);
      const auto first = group.recv(host.data(), 100, DataType::uint8, 0, kTag);
      const auto second = recv(group, program, there, 100);
      EXPECT_TRUE(second->wait());
      EXPECT_TRUE(first->wait());
      EXPECT_EQ(host, bytes_of(100, 1));
      EXPECT_EQ(program.read(there, 100), bytes_of(100, 2));
    }
  });
}

// What comes before it is received lies in the host's memory.
TEST_P(DeviceMessages, OfTheHostMayComeBeforeTheyAreReceivedOnADevice) {
  run(2, [&](Communicator& group, Program& program) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{20'000}}) {
      if (group.rank() == 0) {
        const std::vector<std::byte> host = bytes_of(size, 4);
        const auto sent = group.send(host.data(), size, DataType::uint8, 1, kTag);
        ASSERT_TRUE(group.barrier()->wait());
        EXPECT_TRUE(sent->wait());
      } else {
        ASSERT_TRUE(group.barrier()->wait());
        std::byte* const there = program.allocate(size);
        EXPECT_TRUE(recv(group, program, there, size)->wait());
        EXPECT_EQ(program.read(there, size), bytes_of(size, 4));
      }
    }
  });
}

// A large one, whose data the peer has not asked for.
TEST_P(DeviceMessages, ASendHoldsItsStreamBackForItsCopyOnly) {
  std::atomic<bool> passed{false};
  run(2, [&](Communicator& group, Program& program) {
    constexpr size_t kBytes = 300'000;
    if (group.rank() == 0) {
      const auto call = send(group, program, program.written(bytes_of(kBytes, 3)), kBytes);
      program.stream.synchronize();
      passed = true;
      EXPECT_TRUE(call->wait());
    } else {
      while (!passed) std::this_thread::yield();
      std::byte* const there = program.allocate(kBytes);
      (void)recv(group, program, there, kBytes);
      EXPECT_EQ(program.read(there, kBytes), bytes_of(kBytes, 3));
    }
  });
}

TEST_P(DeviceMessages, MayBePersistentSynchronousGroupedAndFromAnyRank) {
  run(2, [&](Communicator& group, Program& program) {
    std::byte* const mine = program.written(bytes_of(50, group.rank()));
    std::byte* const theirs = program.allocate(50);
    const auto expect_theirs = [&] {
      EXPECT_EQ(program.read(theirs, 50), bytes_of(50, 1 - group.rank()));
      program.write(theirs, bytes_of(50, 9));
    };
    CallOptions call = program.call();
    call.persistent = true;
    const auto out = group.send(mine, 50, DataType::uint8, 1 - group.rank(), 1, call);
    const auto in = group.recv(theirs, 50, DataType::uint8, kAnySource, 1, call);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(out->start());
      ASSERT_TRUE(in->start());
      expect_theirs();
      ASSERT_TRUE(out->wait());
      ASSERT_TRUE(in->wait());
      EXPECT_EQ(in->source(), 1 - group.rank());
    }
    {
      const GroupOfCalls calls(group);
      (void)recv(group, program, theirs, 50);
      (void)send(group, program, mine, 50);
    }
    expect_theirs();
    call = program.call();
    call.synchronous = true;
    const auto sent = send(group, program, mine, 50);
    EXPECT_TRUE(group.recv(theirs, 50, DataType::uint8, 1 - group.rank(), kTag, call)->done());
    expect_theirs();
    EXPECT_TRUE(sent->wait());
  });
}

TEST_P(DeviceMessages, AnAbortReleasesTheirStreams) {
  run(2, [&](Communicator& group, Program& program) {
    std::byte* const data = program.written(bytes_of(64, 5));
    std::vector<OperationPtr> calls;
    if (group.rank() == 0) {
      for (int i = 0; i < 3; ++i) calls.push_back(recv(group, program, data, 64));
      calls.push_back(send(group, program, data, 64));
    } else {
      group.abort("enough");
    }
    for (const OperationPtr& call : calls) EXPECT_FALSE(call->wait());
    EXPECT_EQ(program.read(data, 64), bytes_of(64, 5));
  });
}

TEST_P(DeviceMessages, SizesThatDifferAreNamedAndNothingIsWritten) {
  run(2, [&](Communicator& group, Program& program) {
    std::byte* const data = program.written(bytes_of(64, 5));
    const auto call =
        group.rank() == 0 ? send(group, program, data, 64) : recv(group, program, data, 63);
    if (Status ended = call->wait(); group.rank() == 1) {
      ASSERT_FALSE(ended);
      EXPECT_PRED2(contains, ended.error().message(), "sent 64 bytes with tag 7");
    }
    EXPECT_EQ(program.read(data, 64), bytes_of(64, 5));
  });
}

// A kernel before the receive may take any time.
TEST(DeviceMessageFaults, TimeInWhichTheStreamIsBehindDoesNotCount) {
  (void)driver();
  std::atomic<bool> gate{false};
  run_ranks(
      2, [&](int rank) { return on_double("shm", rank); },
      [&](Communicator& group) {
        Program program(group.rank());
        std::byte* const data = program.written(bytes_of(100, group.rank()));
        CallOptions call = program.call();
        if (group.rank() == 1) {
          (void)group.send(data, 100, DataType::uint8, 0, 1, call)->wait();
          return;
        }
        program.hold_back(gate);
        call.timeout = std::chrono::milliseconds(1000);
        const auto receive = group.recv(data, 100, DataType::uint8, 1, 1, call);
        std::this_thread::sleep_for(call.timeout + std::chrono::milliseconds(300));
        EXPECT_FALSE(receive->done());
        gate = true;
        EXPECT_TRUE(receive->wait());
        EXPECT_EQ(program.read(data, 100), bytes_of(100, 1));
      });
}

// Each call of the driver fails once: whoever is concerned learns its name, and all streams go on.
TEST(DeviceMessageFaults, EveryCallOfTheDriverMayFail) {
  (void)driver();
  for (const char* call :
       {"cuPointerGetAttributes", "cuStreamIsCapturing", "cuStreamWaitValue32", "cuMemHostRegister",
        "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamWriteValue32", "cuLaunchHostFunc"})
    for (const int nth : {1, 2, 3}) {
      std::atomic<int> failed{0};
      run_ranks(
          2, [&](int rank) { return on_double("shm", rank); },
          [&](Communicator& group) {
            Program program(group.rank());
            std::byte* const data = program.written(bytes_of(1000, 1));
            program.stream.synchronize();
            (void)group.barrier()->wait();
            if (group.rank() == 0) fail(fmt::format("{}:{}=999", call, nth));
            (void)group.barrier()->wait();
            try {
              const auto operation =
                  group.rank() == 0 ? group.send(data, 1000, DataType::uint8, 1, 1, program.call())
                                    : group.recv(data, 1000, DataType::uint8, 0, 1, program.call());
              if (Status s = operation->wait(); !s) throw std::move(s.error());
            } catch (const Error& error) {
              failed += contains(error.message(), call);
            }
            program.stream.synchronize();
          });
      fail("");
      if (nth == 1) EXPECT_GE(failed, 1) << call;
      EXPECT_EQ(left(), "") << call << " " << nth;
    }
}

}  // namespace
}  // namespace ringwood::testing

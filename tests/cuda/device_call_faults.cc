// Calls on memory of devices that go wrong: named on every rank, with streams that go on.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/operations/copied_memory.h"
#include "tests/cuda/device_program.h"
#include "tests/support/errors.h"

namespace ringwood::testing {
namespace {

class DeviceGroupFaults : public DeviceGroups {};
INSTANTIATE_TEST_SUITE_P(Transports, DeviceGroupFaults, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

TEST_P(DeviceGroupFaults, MemoryOfTheHostOnOneRankIsNamedAndNothingIsWritten) {
  run(2, [&](Communicator& group, Program& program) {
    const auto bytes = numbers(DataType::int32, 100, group.rank());
    std::byte* const there = program.written(bytes);
    std::vector<std::byte> here = bytes;
    const bool on_device = group.rank() == 1;
    const auto call =
        on_device ? group.all_reduce(there, 100, DataType::int32, ReduceOp::sum, program.call())
                  : group.all_reduce(here.data(), 100, DataType::int32, ReduceOp::sum);
    const Status ended = call->wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::mismatch);
    EXPECT_PRED2(contains, ended.error().message(), "in memory of a device");
    EXPECT_EQ(here, bytes);
    EXPECT_EQ(program.read(there, 400), bytes);  // and the stream goes on
  });
}

// The streams of operations that wait, and of those that have not begun, go on.
TEST_P(DeviceGroupFaults, AnAbortReleasesAllStreams) {
  run(2, [&](Communicator& group, Program& program) {
    const auto bytes = numbers(DataType::int32, 100, 5);
    std::byte* const data = program.written(bytes);
    std::vector<OperationPtr> calls;
    if (group.rank() == 0)
      for (int i = 0; i < 20; ++i)
        calls.push_back(
            group.all_reduce(data, 100, DataType::int32, ReduceOp::sum, program.call()));
    else
      group.abort("enough");
    for (const OperationPtr& call : calls) EXPECT_FALSE(call->wait());
    EXPECT_EQ(program.read(data, 400), bytes);
    const auto late = group.all_reduce(data, 100, DataType::int32, ReduceOp::sum, program.call());
    EXPECT_FALSE(late->wait());
    EXPECT_EQ(program.read(data, 400), bytes);
  });
}

// Each call of the driver fails once, on one of the ranks: all learn its name, and all streams go
// on.
TEST(DeviceCallFaults, EveryCallOfTheDriverMayFail) {
  (void)driver();
  for (const char* call : {"cuPointerGetAttributes", "cuStreamIsCapturing", "cuStreamWaitValue32",
                           "cuMemHostRegister", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync",
                           "cuStreamWriteValue32", "cuLaunchHostFunc", "cuCtxPushCurrent"})
    for (const int nth : {1, 2}) {
      std::atomic<int> failed{0};
      run_ranks(
          3, [&](int rank) { return on_double("shm", rank); },
          [&](Communicator& group) {
            Program program(group.rank());
            std::byte* const data = program.written(numbers(DataType::float32, 1000, 1));
            program.stream.synchronize();
            (void)group.barrier()->wait();
            if (group.rank() == 0) fail(fmt::format("{}:{}=999", call, nth));
            (void)group.barrier()->wait();
            try {
              const auto operation =
                  group.all_reduce(data, 1000, DataType::float32, ReduceOp::sum, program.call());
              if (Status s = operation->wait(); !s) throw std::move(s.error());
            } catch (const Error& error) {
              ++failed;
              EXPECT_PRED2(contains, error.message(), call);
            }
            program.stream.synchronize();
          });
      fail("");
      // Some calls do without a current context.
      if (nth == 1 && std::string(call) != "cuCtxPushCurrent") EXPECT_GE(failed, 1) << call;
      EXPECT_EQ(left(), "") << call << " " << nth;
    }
}

// A kernel before the call may take any time, and is no lost rank.
TEST(DeviceCallFaults, TimeInWhichTheStreamIsBehindDoesNotCount) {
  (void)driver();
  std::atomic<bool> gate{false};
  run_ranks(
      2, [&](int rank) { return on_double("shm", rank); },
      [&](Communicator& group) {
        Program program(group.rank());
        std::byte* const data = program.written(numbers(DataType::int32, 100, 1));
        CallOptions call = program.call();
        if (group.rank() == 0) {
          program.hold_back(gate);
          call.timeout = std::chrono::milliseconds(2500);
        }
        // Of one that has begun, and of one that waits behind it.
        const auto first = group.all_reduce(data, 100, DataType::int32, ReduceOp::max, call);
        const auto second = group.all_reduce(data, 100, DataType::int32, ReduceOp::max, call);
        if (group.rank() == 0) {
          std::this_thread::sleep_for(call.timeout + std::chrono::milliseconds(300));
          EXPECT_FALSE(first->done());
          gate = true;
        }
        EXPECT_TRUE(first->wait());
        EXPECT_TRUE(second->wait());
      });
}

TEST(DeviceCallFaults, WhoIsWaitedForIsSaidToWaitForItsGpu) {
  (void)driver();
  std::atomic<bool> gate{false};
  run_ranks(
      3, [&](int rank) { return on_double("shm", rank); },
      [&](Communicator& group) {
        Program program(group.rank());
        std::byte* const data = program.written(numbers(DataType::int32, 100, 1));
        if (group.rank() == 1) program.hold_back(gate);
        CallOptions call = program.call();
        if (group.rank() == 2) call.timeout = std::chrono::milliseconds(600);
        const Status ended =
            group.all_reduce(data, 100, DataType::int32, ReduceOp::max, call)->wait();
        ASSERT_FALSE(ended);
        EXPECT_EQ(ended.error().code, ErrorCode::timeout);
        EXPECT_PRED2(contains, ended.error().message(), "waiting for their GPUs: rank 1");
        if (group.rank() == 1) gate = true;
      });
}

// The program has said how long it waits: behind what is in the stream, too.
TEST(DeviceCallFaults, AWaitersDeadlineCountsBehindTheStream) {
  (void)driver();
  std::atomic<bool> gate{false};
  run_ranks(
      2, [&](int rank) { return on_double("shm", rank); },
      [&](Communicator& group) {
        Program program(group.rank());
        const auto bytes = numbers(DataType::int32, 100, group.rank());
        std::byte* const data = program.written(bytes);
        program.hold_back(gate);
        const auto call =
            group.all_reduce(data, 100, DataType::int32, ReduceOp::sum, program.call());
        const Status ended = call->wait(std::chrono::milliseconds(200));
        ASSERT_FALSE(ended);
        EXPECT_EQ(ended.error().code, ErrorCode::timeout);
        gate = true;
        EXPECT_EQ(program.read(data, 400), bytes);
      });
}

// Nothing would ever tell that the stream has come.
TEST(DeviceCallFaults, ADeviceThatHasFailedIsNoticedWhileItIsWaitedFor) {
  (void)driver();
  for (const bool message : {false, true}) {
    std::atomic<bool> gate{false};
    run_ranks(
        2, [&](int rank) { return on_double("shm", rank); },
        [&](Communicator& group) {
          Program program(group.rank());
          std::byte* const data = program.written(numbers(DataType::int32, 100, 1));
          program.hold_back(gate);
          const int peer = 1 - group.rank();
          const auto call =
              message ? group.recv(data, 100, DataType::int32, peer, 1, program.call())
                      : group.all_reduce(data, 100, DataType::int32, ReduceOp::sum, program.call());
          if (group.rank() == 0) fail("cuStreamQuery:1=700");
          const Status ended = call->wait();
          ASSERT_FALSE(ended);
          EXPECT_PRED2(contains, ended.error().message(), "cuStreamQuery on device");
          gate = true;
          program.stream.synchronize();
        });
    fail("");
    EXPECT_EQ(left(), "");
  }
}

// It could wait for streams that wait for the operations of its thread.
TEST(DeviceCallFaults, ACallInACallbackIsRefused) {
  (void)driver();
  std::atomic<bool> registered{false}, over{false};
  std::string said, said_of_start;
  run_ranks(
      2, [&](int rank) { return on_double("shm", rank); },
      [&](Communicator& group) {
        Program program(group.rank());
        std::byte* const data = program.allocate(16);
        if (group.rank() == 1) {
          while (!registered) std::this_thread::yield();
          EXPECT_TRUE(group.barrier()->wait());
          return;
        }
        CallOptions persistent = program.call();
        persistent.persistent = true;
        const auto kept = group.all_reduce(data, 4, DataType::int32, ReduceOp::sum, persistent);
        const auto barrier = group.barrier();
        barrier->on_done([&](const Error*) {
          if (Status s = kept->start(); !s) said_of_start = s.error().cause;
          try {
            (void)group.all_reduce(data, 4, DataType::int32, ReduceOp::sum, program.call());
          } catch (const Error& error) {
            said = error.cause;
          }
          over = true;
        });
        registered = true;
        EXPECT_TRUE(barrier->wait());
        while (!over) std::this_thread::yield();
      });
  for (const std::string& refused : {said, said_of_start})
    EXPECT_PRED2(contains, refused, "cannot be made in the callback of another operation");
}

class DeviceMistakes : public ::testing::Test {
 protected:
  // The sentence, on a group of one, which can still be used afterwards.
  std::string refused(const std::function<OperationPtr(Communicator&, Program&)>& mistake) {
    std::string said;
    run_ranks(
        1, [&](int rank) { return on_double("shm", rank); },
        [&](Communicator& group) {
          Program program(0);
          try {
            if (Status s = mistake(group, program)->wait(); !s) said = s.error().cause;
          } catch (const Error& error) {
            said = error.cause;
          }
          std::byte* const data = program.written(numbers(DataType::int32, 10, 1));
          EXPECT_TRUE(
              group.all_reduce(data, 10, DataType::int32, ReduceOp::sum, program.call())->wait());
        });
    return said;
  }
};

TEST_F(DeviceMistakes, AreOneSentenceAndChangeNothing) {
  const auto sum = [](Communicator& group, void* data, const CallOptions& call) {
    return group.all_reduce(data, 4, DataType::int32, ReduceOp::sum, call);
  };
  std::vector<int> host(4);
  EXPECT_PRED2(
      contains,
      refused([&](auto& group, auto& program) { return sum(group, host.data(), program.call()); }),
      "all_reduce: a buffer is memory of the host, and the call is on a stream of device 0");
  EXPECT_PRED2(contains, refused([&](auto& group, auto& program) {
                 CallOptions call = program.call();
                 call.on.device = 1;
                 call.on.stream = nullptr;
                 return sum(group, program.allocate(16), call);
               }),
               "a buffer is memory of device 0, and the call is on a stream of device 1");
  EXPECT_PRED2(contains, refused([&](auto& group, auto& program) {
                 CallOptions call = program.call();
                 call.on.device = 9;
                 return sum(group, program.allocate(16), call);
               }),
               "device 9: CUDA_ERROR_INVALID_DEVICE");
  EXPECT_PRED2(contains, refused([&](auto& group, auto& program) {
                 std::byte* const data = program.allocate(16);
                 const CurrentContext current(program.device);
                 entry<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2")(
                     program.stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                 const auto end = [&](void*) {
                   void* graph = nullptr;
                   entry<CUresult (*)(CUstream, void**)>("cuStreamEndCapture")(program.stream.get(),
                                                                               &graph);
                 };
                 const std::unique_ptr<void, decltype(end)> capture(data, end);
                 return sum(group, data, program.call());
               }),
               "the stream is being captured into a CUDA graph");
}

TEST_F(DeviceMistakes, MemoryOfADeviceWithoutAStreamIsNamed) {
  (void)driver();  // before the group is made, as by a program that has such memory
  constexpr const char* kSaid =
      "a buffer is memory of device 0, and the call is for memory of the host";
  for (const bool synchronous : {false, true}) {
    CallOptions call;
    call.synchronous = synchronous;
    const auto sum = [&](Communicator& group, Program& program) {
      int here = 1;
      (void)group.all_reduce(&here, 1, DataType::int32, ReduceOp::sum, call)->wait();
      return group.all_reduce(program.allocate(4), 1, DataType::int32, ReduceOp::sum, call);
    };
    EXPECT_PRED2(contains, refused(sum), kSaid);
    const auto gather = [&](Communicator& group, Program& program) {
      std::byte* const in = program.allocate(4);
      int out = 0;
      return group.all_gather(in, &out, 1, DataType::int32, call);
    };
    EXPECT_PRED2(contains, refused(gather), kSaid);
  }
  // Small calls of a group, which would be packed.
  const auto grouped = [&](Communicator& group, Program& program) {
    int here = 1;
    std::byte* const there = program.allocate(4);
    group.group_start();
    const auto packed = group.all_reduce(there, 1, DataType::int32, ReduceOp::sum);
    (void)group.all_reduce(&here, 1, DataType::int32, ReduceOp::sum);
    group.group_end();
    return packed;
  };
  EXPECT_PRED2(contains, refused(grouped), kSaid);
  const auto copied = [&](Communicator& group, Program& program) {
    int here = 1;
    CallOptions call;
    auto memory = std::make_shared<CopiedMemory>();
    memory->read.push_back({program.allocate(4), 4});
    call.copied = memory;
    return group.all_reduce(&here, 1, DataType::int32, ReduceOp::sum, call);
  };
  EXPECT_PRED2(contains, refused(copied), kSaid);
}

TEST_F(DeviceMistakes, WhatOnlyTheHostCanDoIsRefused) {
  const auto sum = [](Communicator& group, Program& program, const CallOptions& call, ReduceOp op) {
    return group.all_reduce(program.allocate(16), 4, DataType::float32, op, call);
  };
  EXPECT_PRED2(contains, refused([&](auto& group, auto& program) {
                 CallOptions call = program.call();
                 call.copied = std::make_shared<CopiedMemory>();
                 return sum(group, program, call, ReduceOp::sum);
               }),
               "CallOptions::copied is for memory of the host");
  EXPECT_PRED2(contains, refused([&](auto& group, auto& program) {
                 CallOptions call = program.call();
                 call.factor = 3;
                 return sum(group, program, call, ReduceOp::premul_sum);
               }),
               "is only a multiplication");
}

TEST_F(DeviceMistakes, SwitchesAndBoundsAreNamed) {
  const auto said = [&](const std::function<void(Options&)>& change, size_t count) {
    std::string text;
    run_ranks(
        2,
        [&](int rank) {
          Options options = on_double("shm", rank);
          change(options);
          return options;
        },
        [&](Communicator& group) {
          Program program(group.rank());
          std::byte* const data = program.allocate(count * 4);
          try {
            const auto call =
                group.all_reduce(data, count, DataType::int32, ReduceOp::sum, program.call());
            if (Status s = call->wait(); !s) throw std::move(s.error());
          } catch (const Error& error) {
            if (group.rank() == 0) text = error.cause;
          }
        });
    return text;
  };
  EXPECT_PRED2(contains, said([](Options& o) { o.cuda.enabled = false; }, 10),
               "RINGWOOD_CUDA=0 switches memory of devices off");
  EXPECT_PRED2(contains, said([](Options& o) { o.cuda.pinned_bytes = 1 << 20; }, 10'000'000),
               "are allowed (RINGWOOD_PINNED_BYTES)");
}

}  // namespace
}  // namespace ringwood::testing

// Calls on memory of devices: what users of CUDA collectives expect of them, over every transport.
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/cuda/device_program.h"

namespace ringwood::testing {
namespace {

class DeviceCalls : public DeviceGroups {};
INSTANTIATE_TEST_SUITE_P(Transports, DeviceCalls, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

// A call of every collective, with the same arguments on the host and on a device.
struct Side {
  Communicator& group;
  const CallOptions& call;
  DataType type;
  ReduceOp op;
  size_t count;
  int root;
};
struct Buffers {
  std::byte *in, *out;
};
size_t in_blocks(Collective c, int n) {
  return c == Collective::reduce_scatter || c == Collective::all_to_all || c == Collective::scatter
             ? static_cast<size_t>(n)
             : 1;
}
size_t out_blocks(Collective c, int n) {
  return c == Collective::all_gather || c == Collective::all_to_all || c == Collective::gather
             ? static_cast<size_t>(n)
             : 1;
}
template <class AnyBlock>
std::vector<AnyBlock> blocks(std::byte* data, const Side& side) {
  std::vector<AnyBlock> all;
  for (int r = 0; r < side.group.size(); ++r)
    all.push_back({data + static_cast<size_t>(r) * side.count * size_of(side.type), side.count});
  return all;
}
OperationPtr make_call(Collective collective, const Side& s, const Buffers& b) {
  const bool at_root = s.group.rank() == s.root;
  switch (collective) {
    case Collective::all_reduce: return s.group.all_reduce(b.out, s.count, s.type, s.op, s.call);
    case Collective::reduce: return s.group.reduce(b.out, s.count, s.type, s.op, s.root, s.call);
    case Collective::broadcast: return s.group.broadcast(b.out, s.count, s.type, s.root, s.call);
    case Collective::all_gather: return s.group.all_gather(b.in, b.out, s.count, s.type, s.call);
    case Collective::reduce_scatter:
      return s.group.reduce_scatter(b.in, b.out, s.count, s.type, s.op, s.call);
    case Collective::all_to_all: return s.group.all_to_all(b.in, b.out, s.count, s.type, s.call);
    case Collective::gather:
      return s.group.gather({b.in, s.count},
                            at_root ? blocks<Block>(b.out, s) : std::vector<Block>(), s.type,
                            s.root, s.call);
    case Collective::scatter:
      return s.group.scatter(at_root ? blocks<ConstBlock>(b.in, s) : std::vector<ConstBlock>(),
                             {b.out, s.count}, s.type, s.root, s.call);
    default: return nullptr;
  }
}
constexpr Collective kMoving[] = {Collective::all_reduce,     Collective::reduce,
                                  Collective::broadcast,      Collective::all_gather,
                                  Collective::reduce_scatter, Collective::all_to_all,
                                  Collective::gather,         Collective::scatter};

// Out of place where there are two buffers, so that a rank's own block is copied, too.
TEST_P(DeviceCalls, OfEveryCollectiveTypeAndOperationEndWithTheHostsBits) {
  for (const int n : {1, 2, 3})
    run(n, [&](Communicator& group, Program& program) {
      CallOptions on_device = program.call(), on_host;
      on_device.factor = on_host.factor = n == 1 ? 1 : group.rank() + 2;
      int seed = group.rank();
      for (const Collective collective : kMoving)
        for (int t = 0; t < kDataTypes; ++t)
          for (const ReduceOp op :
               {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::bxor}) {
            const auto type = static_cast<DataType>(t);
            if (!reduces(collective) && op != ReduceOp::sum) continue;
            if (!supports(collective, type, op)) continue;
            const size_t count = 37, one = count * size_of(type);
            const int root = n - 1;
            std::vector<std::byte> in = numbers(type, in_blocks(collective, n) * count, ++seed);
            std::vector<std::byte> out = numbers(type, out_blocks(collective, n) * count, ++seed);
            const Buffers there{program.written(in), program.written(out)};
            const auto host = make_call(collective, {group, on_host, type, op, count, root},
                                        {in.data(), out.data()});
            const auto device =
                make_call(collective, {group, on_device, type, op, count, root}, there);
            ASSERT_TRUE(host->wait());
            const auto what = fmt::format("{} {} {}, {} ranks", to_string(collective),
                                          to_string(type), to_string(op), n);
            ASSERT_EQ(program.read(there.out, out_blocks(collective, n) * one), out) << what;
            ASSERT_EQ(program.read(there.in, in.size()), in) << what;
            ASSERT_TRUE(device->wait()) << what;
          }
    });
}

// Nothing waits on the host: neither the calls nor what is put into the stream behind them.
TEST_P(DeviceCalls, AreInTheOrderOfTheirStreams) {
  run(2, [&](Communicator& group, Program& program) {
    constexpr size_t kCount = 5000;
    std::byte* const data = program.written(numbers(DataType::int32, kCount, group.rank()));
    std::byte* const copy = program.allocate(kCount * 4);
    std::vector<std::vector<std::byte>> seen;
    std::vector<OperationPtr> calls;
    for (int i = 0; i < 6; ++i) {
      CallOptions call = program.call();
      call.priority = i % 3 == 2 ? Priority::high : Priority::normal;
      calls.push_back(group.all_reduce(data, kCount, DataType::int32, ReduceOp::sum, call));
      const CurrentContext current(program.device);
      EXPECT_EQ(driver().memory.copy_within_device(reinterpret_cast<CUdeviceptr>(copy),
                                                   reinterpret_cast<CUdeviceptr>(data), kCount * 4,
                                                   program.stream.get()),
                CUDA_SUCCESS);
    }
    std::vector<std::byte> expected = numbers(DataType::int32, kCount, 0);
    const std::vector<std::byte> other = numbers(DataType::int32, kCount, 1);
    for (size_t i = 0; i < kCount; ++i) {
      int32_t mine = 0, theirs = 0;
      std::memcpy(&mine, expected.data() + 4 * i, 4);
      std::memcpy(&theirs, other.data() + 4 * i, 4);
      mine = (mine + theirs) << 5;
      std::memcpy(expected.data() + 4 * i, &mine, 4);
    }
    EXPECT_EQ(program.read(copy, kCount * 4), expected);
    for (const OperationPtr& call : calls) EXPECT_TRUE(call->wait());
  });
}

TEST_P(DeviceCalls, ReturnWhileTheDeviceIsHeldBack) {
  std::atomic<int> made{0};
  run(2, [&](Communicator& group, Program& program) {
    std::byte* const data = program.written(numbers(DataType::float32, 1000, 2));
    program.stream.synchronize();
    // The first call makes what the others need.
    ASSERT_TRUE(
        group.all_reduce(data, 1000, DataType::float32, ReduceOp::max, program.call())->wait());
    (void)group.barrier()->wait();
    if (group.rank() == 0) pause(true);
    (void)group.barrier()->wait();
    std::vector<OperationPtr> calls;
    for (int i = 0; i < 50; ++i)
      calls.push_back(
          group.all_reduce(data, 1000, DataType::float32, ReduceOp::max, program.call()));
    EXPECT_FALSE(calls.front()->done());
    EXPECT_FALSE(program.stream.idle());
    // A call on memory of the host passes them by, as they are on another track or wait.
    ++made;
    while (made.load() < 2) std::this_thread::yield();
    if (group.rank() == 0) pause(false);
    EXPECT_EQ(program.read(data, 4000), numbers(DataType::float32, 1000, 2));
    for (const OperationPtr& call : calls) EXPECT_TRUE(call->wait());
  });
}

TEST_P(DeviceCalls, MayBePersistentSynchronousGroupedAndUneven) {
  run(3, [&](Communicator& group, Program& program) {
    const auto expect = [&](const std::byte* at, std::initializer_list<int> values) {
      std::vector<std::byte> bytes;
      for (const int v : values) {
        bytes.resize(bytes.size() + 4);
        std::memcpy(bytes.data() + bytes.size() - 4, &v, 4);
      }
      EXPECT_EQ(program.read(at, bytes.size()), bytes);
    };
    const auto ints = [&](std::initializer_list<int> values) {
      std::vector<std::byte> bytes(values.size() * 4);
      std::memcpy(bytes.data(), std::data(values), bytes.size());
      return program.written(bytes);
    };
    const int me = group.rank();
    std::byte* const data = ints({me, 1});
    CallOptions call = program.call();
    call.persistent = true;
    const auto again = group.all_reduce(data, 2, DataType::int32, ReduceOp::sum, call);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(again->start());
      ASSERT_TRUE(again->wait());
    }
    expect(data, {27, 27});
    call.persistent = false;
    call.synchronous = true;
    std::byte* const now = ints({me});
    EXPECT_TRUE(group.all_reduce(now, 1, DataType::int32, ReduceOp::max, call)->done());
    expect(now, {2});
    call.synchronous = false;
    std::vector<std::byte*> small;
    {
      const GroupOfCalls calls(group);
      for (int i = 0; i < 5; ++i) {
        small.push_back(ints({me + i}));
        (void)group.all_reduce(small.back(), 1, DataType::int32, ReduceOp::sum, call);
      }
    }
    for (int i = 0; i < 5; ++i) expect(small[static_cast<size_t>(i)], {3 + 3 * i});
    // Blocks of 1, 2 and 3 elements.
    std::byte* const mine = ints({10 * me, 10 * me + 1, 10 * me + 2});
    std::vector<Block> all;
    for (size_t r = 0; r < 3; ++r) all.push_back({ints({-1, -1, -1}), r + 1});
    const size_t count = static_cast<size_t>(me) + 1;
    ASSERT_TRUE(group.all_gather({mine, count}, all, DataType::int32, call)->wait());
    expect(static_cast<std::byte*>(all[0].data), {0, -1, -1});
    expect(static_cast<std::byte*>(all[1].data), {10, 11, -1});
    expect(static_cast<std::byte*>(all[2].data), {20, 21, 22});
    call.factor = me + 1;
    std::vector<std::byte> half(4);
    put_value(half.data(), 0, DataType::float16, 3);
    put_value(half.data(), 1, DataType::float16, -1);
    std::byte* const scaled = program.written(half);
    ASSERT_TRUE(group.all_reduce(scaled, 2, DataType::float16, ReduceOp::premul_sum, call)->wait());
    put_value(half.data(), 0, DataType::float16, 18);
    put_value(half.data(), 1, DataType::float16, -6);
    EXPECT_EQ(program.read(scaled, 4), half);
  });
}

TEST_P(DeviceCalls, OfLargeBuffersComeInSegments) {
  run(2, [&](Communicator& group, Program& program) {
    for (const size_t count : {size_t{300'000}, size_t{1'500'000}}) {
      std::byte* const data = program.written(numbers(DataType::int32, count, 1));
      CallOptions call = program.call();
      call.segments = 4;
      ASSERT_TRUE(group.all_reduce(data, count, DataType::int32, ReduceOp::max, call)->wait());
      EXPECT_EQ(program.read(data, count * 4), numbers(DataType::int32, count, 1));
    }
  });
}

// By two threads of a rank, which take other turns on the other rank; with calls of the host.
TEST_P(DeviceCalls, OfSeveralThreadsAndStreamsAndOfTheHostAlternate) {
  run(2, [&](Communicator& group, Program& program) {
    constexpr int kCalls = 400;
    constexpr size_t kCount = 700;
    const Stream other(program.device);
    const CUstream streams[] = {program.stream.get(), other.get()};
    std::byte* const data[] = {program.written(numbers(DataType::int32, kCount, 0)),
                               program.written(numbers(DataType::int32, kCount, 0))};
    program.stream.synchronize();
    std::vector<OperationPtr> calls(kCalls);
    std::vector<int> host(kCalls, 1);
    std::atomic<int> turn{0};
    const auto take_turns = [&](int thread) {
      for (int i = 0; i < kCalls; ++i) {
        if ((group.rank() == 0 ? i : i / 3) % 2 != thread) continue;
        while (turn.load() != i) std::this_thread::yield();
        const int kind = i * 7 % 5;
        CallOptions call = kind < 2 ? program.call() : CallOptions();
        if (kind < 2) call.on.stream = streams[kind];
        if (i % 11 == 0) call.priority = Priority::high;
        if (kind < 2)
          calls[i] = group.all_reduce(data[kind], kCount, DataType::int32, ReduceOp::max, call);
        else
          calls[i] = group.all_reduce(&host[i], 1, DataType::int32, ReduceOp::sum, call);
        turn = i + 1;
      }
    };
    std::thread second(take_turns, 1);
    take_turns(0);
    second.join();
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(calls[i]->wait());
      if (i * 7 % 5 >= 2) EXPECT_EQ(host[i], 2);
    }
    const CurrentContext current(program.device);
    other.synchronize();
    for (const std::byte* at : data)
      EXPECT_EQ(program.read(at, kCount * 4), numbers(DataType::int32, kCount, 0));
  });
}

// One after the other, in any order: each doubles what the one before has left.
TEST_P(DeviceCalls, OfSeveralThreadsOnOneStreamComeOneAfterTheOther) {
  run(2, [&](Communicator& group, Program& program) {
    constexpr int kRounds = 8, kThreads = 4, kCalls = 7;
    constexpr size_t kCount = 3000;
    std::byte* const data = program.allocate(kCount * 4);
    const auto of = [](int32_t number) {
      std::vector<std::byte> bytes(kCount * 4);
      for (size_t i = 0; i < kCount; ++i) std::memcpy(&bytes[i * 4], &number, 4);
      return bytes;
    };
    for (int round = 0; round < kRounds; ++round) {
      program.write(data, of(1));
      std::barrier<> together(kThreads);
      std::vector<std::thread> callers;
      for (int thread = 0; thread < kThreads; ++thread)
        callers.emplace_back([&] {
          for (int i = 0; i < kCalls; ++i) {
            together.arrive_and_wait();
            (void)group.all_reduce(data, kCount, DataType::int32, ReduceOp::sum, program.call());
          }
        });
      for (std::thread& caller : callers) caller.join();
      ASSERT_EQ(program.read(data, kCount * 4), of(1 << (kThreads * kCalls))) << round;
    }
  });
}

// CUDA waits in a call where a stream is full. That may be the caller, and never the driver, on
// which all streams depend.
TEST_P(DeviceCalls, BehindAFullStreamDelayNoOthers) {
  entry<void (*)(size_t)>("fake_cuda_queue")(1000);
  std::atomic<bool> gate{false};
  std::atomic<int> ready{0};
  run(2, [&](Communicator& group, Program& program) {
    constexpr size_t kCount = 64;
    constexpr int kCalls = 600;
    const Stream busy(program.device);
    std::byte* const slow = program.written(numbers(DataType::int32, kCount, 0));
    std::byte* const quick = program.written(numbers(DataType::int32, kCount, 1));
    ASSERT_TRUE(group.broadcast(slow, kCount, DataType::int32, 0, program.call())->wait());
    program.stream.synchronize();
    program.hold_back(gate);
    std::vector<OperationPtr> calls(kCalls);
    std::thread caller([&] {
      for (OperationPtr& call : calls)
        call = group.all_reduce(slow, kCount, DataType::int32, ReduceOp::max, program.call());
    });
    // Messages, because collectives are begun in the order of the calls.
    CallOptions call = program.call();
    call.on.stream = busy.get();
    const int peer = 1 - group.rank();
    int out = 7, in = 0;
    std::vector<OperationPtr> of_callback;
    std::atomic<bool> called{false};
    for (int i = 0; i < 300; ++i) {
      int mine = i, theirs = -1;
      const auto sent = group.send(&mine, 1, DataType::int32, peer, 1);
      const auto received = group.recv(&theirs, 1, DataType::int32, peer, 1);
      // The driver may launch a group, of the host: it must not wait for the caller either.
      if (i == 200)
        received->on_done([&](const Error*) {
          const GroupOfCalls calls(group);
          of_callback.push_back(group.send(&out, 1, DataType::int32, peer, 2));
          of_callback.push_back(group.recv(&in, 1, DataType::int32, peer, 2));
          called = true;
        });
      ASSERT_TRUE(received->wait());
      ASSERT_TRUE(sent->wait());
      ASSERT_EQ(theirs, i);
    }
    while (!called) std::this_thread::yield();
    if (++ready == 2) gate = true;
    caller.join();
    for (const OperationPtr& made : of_callback) ASSERT_TRUE(made->wait());
    EXPECT_EQ(in, 7);
    for (const OperationPtr& made : calls) ASSERT_TRUE(made->wait());
    ASSERT_TRUE(group.broadcast(quick, kCount, DataType::int32, 0, call)->wait());
    EXPECT_EQ(program.read(slow, kCount * 4), numbers(DataType::int32, kCount, 0));
  });
  entry<void (*)(size_t)>("fake_cuda_queue")(0);
}

}  // namespace
}  // namespace ringwood::testing

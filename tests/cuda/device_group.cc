// Collectives on GPUs, on the double of the driver (double/): the results are those of the CPU's
// executors, bit for bit, whether ranks share a device or not; and what goes wrong is named on
// every rank. Ranks are threads here.
#include "collectives/device/group/device_group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/cuda/device_shapes.h"

namespace ringwood::testing {
namespace {

using device::DeviceCall;
using device::DeviceOptions;

TEST(DeviceGroup, HasTheBitsOfTheCpu) {
  for (const int n : {2, 4}) {
    run_ranks(n, "shm", [&](Communicator& group) {
      DeviceRank rank(group, group.rank() % 2, small());
      uint64_t seed = 0;
      for (const Shape& shape : shapes()) {
        compare(group, rank, shape, ++seed);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
    if (HasFailure()) return;
  }
}

// The row, the way and the blocks by prediction: the same on all ranks, of any size.
TEST(DeviceGroup, ChoosesByItself) {
  run_ranks(4, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank() % 2, small());
    for (const auto collective :
         {Collective::all_reduce, Collective::reduce, Collective::broadcast, Collective::all_gather,
          Collective::reduce_scatter, Collective::all_to_all})
      for (const size_t count : {size_t{1}, size_t{100}, size_t{4000}, size_t{30000}})
        compare(
            group, rank,
            {collective, "", count, DataType::int32, ReduceOp::sum, -1, 0, count < 5000 ? 2 : 0},
            count);
  });
}

// A barrier of devices ends on no stream before it was called on all.
TEST(DeviceGroup, HasBarriers) {
  std::atomic<int> arrived = 0;
  run_ranks(3, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank() % 2, small());
    for (int turn = 1; turn <= 5; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(group.rank()));
      ++arrived;
      const Status done = rank.run({Collective::barrier});
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_GE(arrived, 3 * turn);
    }
  });
}

// What does not fit the staging goes in pieces.
TEST(DeviceGroup, CarriesOutLargeCallsInPieces) {
  run_ranks(2, "shm", [&](Communicator& group) {
    DeviceOptions options = small();
    options.staging_bytes = 4096;
    DeviceRank rank(group, group.rank(), options);
    for (const auto& [collective, row] : {std::pair{Collective::all_reduce, "direct"},
                                          {Collective::all_gather, "direct"},
                                          {Collective::reduce_scatter, "direct"},
                                          {Collective::all_to_all, "pairwise"}})
      for (const int mapped : {0, 1, 2})
        compare(group, rank, {collective, row, 5001, DataType::int32, ReduceOp::sum, 0, 2, mapped},
                7);
  });
}

TEST(DeviceGroup, OrdersCallsOnDifferentStreams) {
  run_ranks(2, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank(), small());
    const cuda::Stream other(rank.device);
    std::vector<float> ones(1000, 1);
    DeviceCall call{Collective::all_reduce};
    call.output = rank.calls->allocate(4000);
    call.count = ones.size();
    call.algorithm = "direct";
    rank.write(call.output, std::as_bytes(std::span(ones)), rank.stream.get());
    for (int turn = 0; turn < 10; ++turn)
      ASSERT_TRUE(rank.calls->enqueue(call, turn % 2 ? other.get() : rank.stream.get()));
    ASSERT_TRUE(rank.calls->wait(other.get()));
    float sum = 0;
    std::memcpy(&sum, rank.read(call.output, 4).data(), 4);
    EXPECT_EQ(sum, 1024);
  });
}

// A graph counts by itself, in turn with calls.
TEST(DeviceGroup, IsCapturedAndReplayed) {
  run_ranks(2, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank(), small());
    const cuda::Driver& driver = rank.device.driver();
    const cuda::CurrentContext current(rank.device);
    for (const int packets : {0, 1}) {
      std::vector<float> ones(100, 1);
      DeviceCall call{Collective::all_reduce};
      call.output = rank.calls->allocate(400);
      call.count = ones.size();
      call.algorithm = "direct";
      call.packets = packets;
      const auto capture = [&](Status& given) {
        cuda::CUgraph graph = nullptr;
        EXPECT_EQ(driver.graph.begin_capture(rank.stream.get(),
                                             cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  cuda::CUDA_SUCCESS);
        given = rank.calls->enqueue(call, rank.stream.get());
        EXPECT_EQ(driver.graph.end_capture(rank.stream.get(), &graph), cuda::CUDA_SUCCESS);
        return graph;
      };
      Status given;
      driver.graph.destroy(capture(given));
      ASSERT_FALSE(given) << "its program was not there";
      EXPECT_NE(given.error().cause.find("warm-up"), std::string::npos) << given.error().cause;
      rank.write(call.output, std::as_bytes(std::span(ones)), rank.stream.get());
      ASSERT_TRUE(rank.run(call));
      cuda::CUgraph const graph = capture(given);
      ASSERT_TRUE(given) << given.error().message();
      cuda::CUgraphExec replay = nullptr;
      ASSERT_EQ(driver.graph.instantiate(&replay, graph, 0), cuda::CUDA_SUCCESS);
      for (int turn = 0; turn < 5; ++turn)
        ASSERT_EQ(driver.graph.launch(replay, rank.stream.get()), cuda::CUDA_SUCCESS);
      ASSERT_TRUE(rank.run(call));
      float sum = 0;
      std::memcpy(&sum, rank.read(call.output, 4).data(), 4);
      EXPECT_EQ(sum, 128);
      driver.graph.destroy_executable(replay);
      driver.graph.destroy(graph);
    }
  });
}

// ---- what goes wrong

TEST(DeviceGroup, NamesARankThatCallsSomethingElse) {
  run_ranks(3, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank() % 2, small());
    const std::vector<float> ones(64, 1);
    DeviceCall call{Collective::all_reduce};
    call.output = rank.calls->allocate(256);
    call.count = group.rank() == 2 ? 63 : 64;
    call.algorithm = "direct";
    rank.write(call.output, std::as_bytes(std::span(ones)), rank.stream.get());
    const Status done = rank.run(call);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().cause.find("something else at the same time"), std::string::npos)
        << done.error().message();
    const auto after = rank.read(call.output, 256);
    EXPECT_EQ(std::memcmp(after.data(), ones.data(), 256), 0) << "nothing was written";
    EXPECT_FALSE(rank.run(call)) << "the group has ended";
  });
}

TEST(DeviceGroup, RefusesWhatItCannotDoAndLivesOn) {
  run_ranks(2, "shm", [&](Communicator& group) {
    DeviceRank rank(group, group.rank(), small());
    DeviceCall call{Collective::all_reduce};
    call.output = rank.calls->allocate(400);
    call.count = 100;
    call.algorithm = "no such row";
    Status done = rank.run(call);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument) << done.error().message();
    call.algorithm = "direct";
    call.op = ReduceOp::band;
    EXPECT_FALSE(rank.run(call)) << "of floats";
    call.op = ReduceOp::sum;
    done = rank.run(call);
    EXPECT_TRUE(done) << done.error().message();
    EXPECT_EQ(rank.calls->allocate(size_t{1} << 40), 0u);
    // Packets that have no room: each time, also when the program is known.
    call.packets = 1;
    call.count = 15000;
    for (int turn = 0; turn < 2; ++turn) {
      done = rank.run(call);
      ASSERT_FALSE(done);
      EXPECT_NE(done.error().cause.find("there is room for"), std::string::npos)
          << done.error().message();
    }
  });
}

TEST(DeviceGroup, FailsOnAllRanksWhereOneHasNoMemory) {
  const auto why = [](int rank) { return fmt::format("rank {}", rank); };
  run_ranks(2, "shm", [&](Communicator& group) {
    DeviceOptions options = small();
    options.arena_bytes = group.rank() == 1 ? size_t{8} << 20 : size_t{4} << 20;
    try {
      DeviceRank rank(group, group.rank(), options);
      ADD_FAILURE() << "arenas of different sizes";
    } catch (const Error& error) {
      EXPECT_NE(error.cause.find(why(1 - group.rank())), std::string::npos) << error.cause;
    }
  });
}

}  // namespace
}  // namespace ringwood::testing

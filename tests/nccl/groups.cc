// Groups of calls, messages, and communicators made together, split and shrunk.
#include <cstdlib>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/free_port.h"

namespace ringwood::testing {
namespace {

TEST(NcclGroups, LaunchAllCallsAtTheEnd) {
  run_nccl(3, [](ncclComm_t comm, int rank) {
    std::vector<std::vector<float>> buffers(20, std::vector<float>(100, 1));
    std::vector<float> large(100000, static_cast<float>(rank));
    expect_success(ncclGroupStart());
    for (auto& buffer : buffers)
      expect_success(ncclAllReduce(buffer.data(), buffer.data(), buffer.size(), ncclFloat, ncclSum,
                                   comm, nullptr));
    expect_success(ncclGroupStart());
    expect_success(
        ncclBroadcast(large.data(), large.data(), large.size(), ncclFloat, 2, comm, nullptr));
    expect_success(ncclGroupEnd());
    EXPECT_EQ(buffers[0][0], 1) << "before the end of the outermost group";
    expect_success(ncclGroupEnd());
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<float>(100, 3));
    EXPECT_EQ(large, std::vector<float>(100000, 2));
  });
}

// Ring exchanges, and all to all with messages; a message to oneself is one of them.
TEST(NcclGroups, ExchangeMessages) {
  for (const int n : {2, 4})
    run_nccl(n, [&](ncclComm_t comm, int rank) {
      std::vector<int> in(static_cast<size_t>(n)), out(static_cast<size_t>(n), -1);
      for (int peer = 0; peer < n; ++peer) in[static_cast<size_t>(peer)] = 100 * rank + peer;
      expect_success(ncclGroupStart());
      for (int peer = 0; peer < n; ++peer) {
        expect_success(ncclSend(&in[static_cast<size_t>(peer)], 1, ncclInt, peer, comm, nullptr));
        expect_success(ncclRecv(&out[static_cast<size_t>(peer)], 1, ncclInt, peer, comm, nullptr));
      }
      expect_success(ncclGroupEnd(), comm);
      for (int peer = 0; peer < n; ++peer)
        EXPECT_EQ(out[static_cast<size_t>(peer)], 100 * peer + rank);
      std::vector<double> large(50000, rank), got(50000);
      if (rank == 0) expect_success(ncclSend(large.data(), 50000, ncclDouble, 1, comm, nullptr));
      if (rank == 1) {
        expect_success(ncclRecv(got.data(), 50000, ncclDouble, 0, comm, nullptr));
        EXPECT_EQ(got, std::vector<double>(50000, 0));
      }
    });
}

TEST(NcclGroups, OfOneThreadHaveAllRanks) {
  const int n = 4;
  ncclComm_t comms[n];
  const int devices[n] = {3, 2, 1, 0};
  expect_success(ncclCommInitAll(comms, n, devices));
  std::vector<std::vector<float>> buffers(n, std::vector<float>(1000, 1));
  for (int turn = 0; turn < 3; ++turn) {
    expect_success(ncclGroupStart());
    for (int rank = 0; rank < n; ++rank)
      expect_success(ncclAllReduce(buffers[static_cast<size_t>(rank)].data(),
                                   buffers[static_cast<size_t>(rank)].data(), 1000, ncclFloat,
                                   ncclSum, comms[rank], nullptr));
    expect_success(ncclGroupEnd());
  }
  for (int rank = 0; rank < n; ++rank) {
    EXPECT_EQ(buffers[static_cast<size_t>(rank)], std::vector<float>(1000, 64));
    int number = -1;
    expect_success(ncclCommCuDevice(comms[rank], &number));
    EXPECT_EQ(number, devices[rank]);
    expect_success(ncclCommUserRank(comms[rank], &number));
    EXPECT_EQ(number, rank);
    expect_success(ncclCommFinalize(comms[rank]));
    EXPECT_EQ(ncclAllReduce(buffers[0].data(), buffers[0].data(), 1, ncclFloat, ncclSum,
                            comms[rank], nullptr),
              ncclInvalidUsage);
  }
  for (ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm));
}

TEST(NcclGroups, MakeCommunicatorsSideBySide) {
  const int n = 3;
  ncclUniqueId id;
  expect_success(ncclGetUniqueId(&id));
  ncclComm_t comms[n];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "by one thread";
  config.blocking = 1;
  expect_success(ncclGroupStart());
  for (int rank = 0; rank < n; ++rank)
    expect_success(ncclCommInitRankConfig(&comms[rank], n, id, rank, &config));
  ncclResult_t state = ncclSuccess;
  expect_success(ncclCommGetAsyncError(comms[0], &state));
  EXPECT_EQ(state, ncclInProgress);
  expect_success(ncclGroupEnd());
  float values[n] = {1, 2, 3};
  expect_success(ncclGroupStart());
  for (int rank = 0; rank < n; ++rank)
    expect_success(ncclBcast(&values[rank], 1, ncclFloat, 1, comms[rank], nullptr));
  expect_success(ncclGroupEnd());
  for (const float value : values) EXPECT_EQ(value, 2);
  for (ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm));
}

// Every rank makes the id for itself; the place is used again by the next group.
TEST(NcclGroups, MeetAtAPlaceOfTheEnvironment) {
  ::setenv("NCCL_COMM_ID", ("127.0.0.1:" + std::to_string(free_port())).c_str(), 1);
  for (int turn = 0; turn < 2; ++turn)
    run_nccl(3, [](ncclComm_t comm, int) {
      int value = 1;
      expect_success(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, nullptr), comm);
      EXPECT_EQ(value, 3);
    });
  ::unsetenv("NCCL_COMM_ID");
}

TEST(NcclGroups, AreSplitByColorAndOrderedByKey) {
  run_nccl(4, [](ncclComm_t comm, int rank) {
    ncclComm_t half = nullptr, again = nullptr;
    // Rank 3 is in none.
    const int color = rank == 3 ? NCCL_SPLIT_NOCOLOR : rank == 1 ? 7 : 0;
    expect_success(ncclCommSplit(comm, color, -rank, &half, nullptr), comm);
    if (rank == 3) {
      EXPECT_EQ(half, nullptr);
    } else {
      int size = 0, own = -1;
      expect_success(ncclCommCount(half, &size));
      expect_success(ncclCommUserRank(half, &own));
      EXPECT_EQ(size, rank == 1 ? 1 : 2);
      EXPECT_EQ(own, rank == 0 ? 1 : 0) << "the higher rank has the lower key";
      float value = static_cast<float>(rank);
      expect_success(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, half, nullptr), half);
      EXPECT_EQ(value, rank == 1 ? 1 : 2);
      expect_success(ncclCommSplit(half, 0, 0, &again, nullptr), half);
      expect_success(ncclCommDestroy(again));
      expect_success(ncclCommDestroy(half));
    }
    float value = 1;
    expect_success(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), comm);
    EXPECT_EQ(value, 4);
  });
}

TEST(NcclGroups, ShrinkToThoseThatStay) {
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT})
    run_nccl(4, [&](ncclComm_t comm, int rank) {
      int gone[] = {1};
      ncclComm_t rest = nullptr;
      if (rank == 1) return;
      expect_success(ncclCommShrink(comm, gone, 1, &rest, nullptr, flags), comm);
      int own = -1;
      expect_success(ncclCommUserRank(rest, &own));
      EXPECT_EQ(own, rank == 0 ? 0 : rank - 1);
      int value = 1 << rank;
      expect_success(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, rest, nullptr), rest);
      EXPECT_EQ(value, 13);
      expect_success(ncclCommDestroy(rest));
    });
}

}  // namespace
}  // namespace ringwood::testing

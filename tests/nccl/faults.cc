// What goes wrong, and what a program is told of it: results and sentences.
#include <atomic>

#include "tests/nccl/nccl_ranks.h"

namespace ringwood::testing {
namespace {

bool says(const std::string& what, ncclComm_t comm = nullptr) {
  return std::string(ncclGetLastError(comm)).find(what) != std::string::npos;
}

TEST(NcclFaults, OfArgumentsAreTold) {
  run_nccl(2, [](ncclComm_t comm, int) {
    float value = 1, other[2] = {};
    const auto reduce = [&](ncclDataType_t type, ncclRedOp_t op) {
      return ncclAllReduce(&value, &value, 1, type, op, comm, nullptr);
    };
    EXPECT_EQ(reduce(static_cast<ncclDataType_t>(12), ncclSum), ncclInvalidArgument);
    EXPECT_TRUE(says("12 is no data type", comm)) << ncclGetLastError(comm);
    EXPECT_EQ(reduce(ncclFloat, ncclNumOps), ncclInvalidArgument);
    EXPECT_TRUE(says("5 is no operation", comm)) << ncclGetLastError(comm);
    EXPECT_EQ(ncclBroadcast(&value, &value, 1, ncclFloat, 2, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(says("no rank 2 among 2")) << ncclGetLastError(nullptr);
    EXPECT_EQ(ncclAllReduce(nullptr, &value, 1, ncclFloat, ncclSum, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_TRUE(says("null", comm));
    EXPECT_EQ(ncclAlltoAll(other, other, 1, ncclFloat, comm, nullptr), ncclInvalidArgument)
        << "not in place";
    ncclRedOp_t op;
    int one = 1;
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &one, ncclInt, ncclScalarHostImmediate, comm),
              ncclInvalidArgument);
    EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
    // None of this has ended the communicator.
    expect_success(reduce(ncclFloat, ncclSum), comm);
    EXPECT_EQ(value, 2);
  });
}

TEST(NcclFaults, OfHandlesAreTold) {
  ncclComm_t comm = nullptr;
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  expect_success(ncclCommInitAll(&comm, 1, nullptr));
  expect_success(ncclCommDestroy(comm));
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_TRUE(says("destroyed")) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(says("without ncclGroupStart"));
  ncclUniqueId id = {};
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument);
  EXPECT_TRUE(says("the id is not one"));
  expect_success(ncclGetUniqueId(&id));
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  ncclConfig_t config = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
               "another rank has died, is late or cannot be reached");
}

TEST(NcclFaults, OfOneCallAreThoseOfItsGroup) {
  run_nccl(2, [](ncclComm_t comm, int) {
    float value = 1;
    expect_success(ncclGroupStart());
    expect_success(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(ncclBcast(&value, 1, ncclFloat, -1, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(value, 1) << "nothing is launched";
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    expect_success(ncclGroupStart());
    expect_success(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
    expect_success(ncclGroupStart());
    expect_success(ncclGroupEnd());
    EXPECT_EQ(value, 1);
  });
}

TEST(NcclFaults, DifferentCallsAreAMistakeOfUse) {
  run_nccl(3, [](ncclComm_t comm, int rank) {
    std::vector<float> values(8, 1);
    EXPECT_EQ(ncclAllReduce(values.data(), values.data(), rank == 1 ? 7 : 8, ncclFloat, ncclSum,
                            comm, nullptr),
              ncclInvalidUsage);
    EXPECT_TRUE(says("rank 1", comm)) << ncclGetLastError(comm);
    ncclResult_t state = ncclSuccess;
    expect_success(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_EQ(values, std::vector<float>(8, 1));
  });
}

// By a thread of its own rank, and by another rank.
TEST(NcclFaults, AnAbortEndsCallsThatWait) {
  for (const int aborting : {0, 1}) {
    ncclUniqueId id;
    expect_success(ncclGetUniqueId(&id));
    ncclComm_t comms[2] = {};
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        expect_success(ncclCommInitRank(&comms[rank], 2, id, rank));
        ++ready;
        if (rank == 1) return;
        float value = 1;
        const ncclResult_t result =
            ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr);
        // The call may come after the abort of its own handle.
        EXPECT_TRUE(result == ncclInternalError || (aborting == 0 && result == ncclInvalidArgument))
            << result << ": " << ncclGetLastError(nullptr);
      });
    while (ready < 2) std::this_thread::yield();
    expect_success(ncclCommAbort(comms[aborting]));
    for (std::thread& thread : threads) thread.join();
    ncclComm_t const other = comms[1 - aborting];
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, other, nullptr),
              ncclInternalError);
    EXPECT_TRUE(says("ncclCommAbort", other)) << ncclGetLastError(other);
    expect_success(ncclCommAbort(other));
  }
}

}  // namespace
}  // namespace ringwood::testing

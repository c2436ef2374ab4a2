// Ranks that are processes: they meet by an id in a file, and one dies. Nothing here may start a
// thread before they are forked.
#include <fstream>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/processes.h"

namespace ringwood::testing {
namespace {

struct IdFile {
  TemporaryPath path;
  void write(const ncclUniqueId& id) const {
    std::ofstream(path.path() + ".new", std::ios::binary).write(id.internal, sizeof id);
    ::rename((path.path() + ".new").c_str(), path.path().c_str());
  }
  ncclUniqueId read() const {
    ncclUniqueId id = {};
    for (const Deadline deadline = patiently(); !deadline.passed(); ::poll(nullptr, 0, 2)) {
      std::ifstream file(path.path(), std::ios::binary);
      if (file.read(id.internal, sizeof id)) break;
    }
    return id;
  }
  ncclComm_t join(int n, int rank) const {
    ncclUniqueId id;
    if (rank == 0) {
      expect_success(ncclGetUniqueId(&id));
      write(id);
    } else {
      id = read();
    }
    ncclComm_t comm = nullptr;
    expect_success(ncclCommInitRank(&comm, n, id, rank));
    return comm;
  }
};

std::string verdict() { return ::testing::Test::HasFailure() ? "wrong" : "right"; }

TEST(NcclProcesses, WorkAsThreadsDo) {
  const IdFile file;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    ncclComm_t const comm = file.join(3, rank);
    std::vector<float> values(10000, static_cast<float>(rank + 1));
    for (int turn = 0; turn < 3; ++turn)
      expect_success(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclMax,
                                   comm, nullptr));
    EXPECT_EQ(values, std::vector<float>(10000, 3));
    ncclComm_t part = nullptr;
    expect_success(ncclCommSplit(comm, rank % 2, 0, &part, nullptr), comm);
    int count = 0;
    expect_success(ncclCommCount(part, &count));
    EXPECT_EQ(count, rank == 1 ? 1 : 2);
    expect_success(ncclCommDestroy(part));
    expect_success(ncclCommDestroy(comm));
    reporter.say(verdict());
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.line(rank), "right") << ranks.log_of(rank);
}

TEST(NcclProcesses, LearnOfADeath) {
  const IdFile file;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    ncclComm_t const comm = file.join(3, rank);
    float value = 1;
    expect_success(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    reporter.say("ready");
    reporter.await_go();
    ncclResult_t state = ncclSuccess;
    for (const Deadline deadline = patiently(); state == ncclSuccess && !deadline.passed();) {
      expect_success(ncclCommGetAsyncError(comm, &state));
      ::poll(nullptr, 0, 2);
    }
    EXPECT_EQ(state, ncclRemoteError) << ncclGetLastError(comm);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclRemoteError);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("2"), std::string::npos)
        << ncclGetLastError(comm);
    expect_success(ncclCommAbort(comm));
    reporter.say(verdict());
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.line(rank), "ready") << ranks.log_of(rank);
  ranks.signal(2, SIGKILL);
  ranks.go(0);
  ranks.go(1);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.line(rank), "right") << ranks.log_of(rank);
}

}  // namespace
}  // namespace ringwood::testing

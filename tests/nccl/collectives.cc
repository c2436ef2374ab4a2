// Every collective of NCCL's interface on memory of the CPU, with every type and operation.
#include <cstdint>

#include "tests/nccl/nccl_ranks.h"

namespace ringwood::testing {
namespace {

constexpr size_t kCount = 501;

double reduced(ncclRedOp_t op, int n, size_t i) {
  const double low = given(1, i), high = given(0, i);
  switch (op) {
    case ncclProd: {
      double product = high;
      for (int rank = 1; rank < n; ++rank) product *= low;
      return product;
    }
    case ncclMax: return high;
    case ncclMin: return low;
    case ncclAvg: return (high + (n - 1) * low) / n;
    default: return high + (n - 1) * low;
  }
}

void expect_reduced(const NcclBuffer& buffer, ncclRedOp_t op, int n, size_t first,
                    const std::string& what) {
  for (size_t i = 0; i < buffer.bytes.size() / size_of(buffer.type); ++i)
    ASSERT_EQ(buffer.value(i), reduced(op, n, first + i))
        << what << " of " << to_string(buffer.type) << ", operation " << op << ", element " << i;
}

void reduce_all_ways(ncclComm_t comm, int rank, int n, const NcclType& type, ncclRedOp_t op) {
  const NcclBuffer in(kCount, type.type, rank);
  NcclBuffer out(kCount, type.type), own(kCount, type.type, rank);
  expect_success(ncclAllReduce(in.bytes.data(), out.at(0), kCount, type.nccl, op, comm, nullptr),
                 comm);
  expect_reduced(out, op, n, 0, "ncclAllReduce");
  EXPECT_EQ(in.bytes, own.bytes) << "the input was changed";
  expect_success(ncclAllReduce(own.at(0), own.at(0), kCount, type.nccl, op, comm, nullptr), comm);
  EXPECT_EQ(own.bytes, out.bytes);
  NcclBuffer at_root(kCount, type.type);
  expect_success(ncclReduce(in.bytes.data(), rank == n - 1 ? at_root.at(0) : nullptr, kCount,
                            type.nccl, op, n - 1, comm, nullptr),
                 comm);
  if (rank == n - 1) expect_reduced(at_root, op, n, 0, "ncclReduce");
  const size_t block = 64;
  const NcclBuffer blocks(block * static_cast<size_t>(n), type.type, rank);
  NcclBuffer piece(block, type.type);
  expect_success(
      ncclReduceScatter(blocks.bytes.data(), piece.at(0), block, type.nccl, op, comm, nullptr),
      comm);
  expect_reduced(piece, op, n, static_cast<size_t>(rank) * block, "ncclReduceScatter");
}

TEST(NcclCollectives, ReduceEveryTypeWithEveryOperation) {
  for (const int n : {2, 4})
    run_nccl(n, [&](ncclComm_t comm, int rank) {
      for (const NcclType& type : kNcclTypes)
        for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg})
          reduce_all_ways(comm, rank, n, type, op);
    });
}

TEST(NcclCollectives, ComparesUnsignedNumbersByAllTheirBits) {
  run_nccl(3, [](ncclComm_t comm, int rank) {
    const uint64_t high = uint64_t{1} << 63;
    const uint64_t in[] = {rank == 0 ? high : uint64_t{7}, rank == 1 ? high + 9 : high + 3};
    uint64_t out[2] = {};
    expect_success(ncclAllReduce(in, out, 2, ncclUint64, ncclMax, comm, nullptr), comm);
    EXPECT_EQ(out[0], high);
    EXPECT_EQ(out[1], high + 9);
    expect_success(ncclAllReduce(in, out, 2, ncclUint64, ncclMin, comm, nullptr), comm);
    EXPECT_EQ(out[0], 7u);
    EXPECT_EQ(out[1], high + 3);
    expect_success(ncclAllReduce(in, out, 1, ncclUint64, ncclAvg, comm, nullptr), comm);
    EXPECT_EQ(out[0], (high + 14) / 3);
  });
}

TEST(NcclCollectives, MovesEveryType) {
  const int n = 3;
  run_nccl(n, [&](ncclComm_t comm, int rank) {
    for (const NcclType& type : kNcclTypes) {
      const NcclBuffer in(kCount, type.type, rank);
      NcclBuffer out(kCount, type.type);
      expect_success(ncclBroadcast(in.bytes.data(), out.at(0), kCount, type.nccl, 1, comm, nullptr),
                     comm);
      EXPECT_EQ(out.bytes, NcclBuffer(kCount, type.type, 1).bytes);
      NcclBuffer own(kCount, type.type, rank);
      expect_success(ncclBcast(own.at(0), kCount, type.nccl, 0, comm, nullptr), comm);
      EXPECT_EQ(own.bytes, NcclBuffer(kCount, type.type, 0).bytes);
      NcclBuffer all(kCount * n, type.type);
      expect_success(ncclAllGather(in.bytes.data(), all.at(0), kCount, type.nccl, comm, nullptr),
                     comm);
      for (size_t i = 0; i < kCount * n; ++i)
        ASSERT_EQ(all.value(i), given(static_cast<int>(i / kCount), i % kCount));
    }
  });
}

// Element i of the block from rank a to rank b.
int64_t tagged(int a, int b, size_t i) { return 1000000 * a + 10000 * b + static_cast<int64_t>(i); }

TEST(NcclCollectives, MovesBlocks) {
  for (const int n : {2, 3, 4})
    run_nccl(n, [&](ncclComm_t comm, int rank) {
      const auto ranks = static_cast<size_t>(n);
      std::vector<int64_t> in(kCount * ranks), out(kCount * ranks), one(kCount);
      for (int to = 0; to < n; ++to)
        for (size_t i = 0; i < kCount; ++i)
          in[static_cast<size_t>(to) * kCount + i] = tagged(rank, to, i);
      const auto expect_from = [&](int from, int to, const int64_t* data) {
        for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], tagged(from, to, i));
      };
      expect_success(ncclAlltoAll(in.data(), out.data(), kCount, ncclInt64, comm, nullptr), comm);
      for (int from = 0; from < n; ++from)
        expect_from(from, rank, &out[static_cast<size_t>(from) * kCount]);
      expect_success(ncclScatter(in.data(), one.data(), kCount, ncclInt64, n - 1, comm, nullptr),
                     comm);
      expect_from(n - 1, rank, one.data());
      expect_success(ncclGather(in.data(), out.data(), kCount, ncclInt64, 0, comm, nullptr), comm);
      for (int from = 0; rank == 0 && from < n; ++from)
        expect_from(from, 0, &out[static_cast<size_t>(from) * kCount]);
      // In place: a rank's block of the output is its input.
      std::vector<int64_t> all(kCount * ranks);
      int64_t* const mine = &all[static_cast<size_t>(rank) * kCount];
      for (size_t i = 0; i < kCount; ++i) mine[i] = tagged(rank, 0, i);
      expect_success(ncclAllGather(mine, all.data(), kCount, ncclInt64, comm, nullptr), comm);
      for (int from = 0; from < n; ++from)
        expect_from(from, 0, &all[static_cast<size_t>(from) * kCount]);
    });
}

TEST(NcclCollectives, MultipliesBeforeItAdds) {
  run_nccl(2, [](ncclComm_t comm, int rank) {
    for (const NcclType& type : kNcclTypes) {
      if (!is_float(type.type)) continue;
      for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
        NcclBuffer factor(1, type.type);
        put_value(factor.at(0), 0, type.type, rank == 0 ? 2 : 4);
        ncclRedOp_t op;
        expect_success(ncclRedOpCreatePreMulSum(&op, factor.at(0), type.nccl, residence, comm));
        EXPECT_GE(op, ncclNumOps);
        NcclBuffer buffer(8, type.type, rank);
        expect_success(ncclAllReduce(buffer.at(0), buffer.at(0), 8, type.nccl, op, comm, nullptr),
                       comm);
        for (size_t i = 0; i < 8; ++i)
          EXPECT_EQ(buffer.value(i), 2 * given(0, i) + 4 * given(1, i)) << to_string(type.type);
        expect_success(ncclRedOpDestroy(op, comm));
        EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
      }
    }
  });
}

TEST(NcclCollectives, DoNothingWithNoElements) {
  run_nccl(2, [](ncclComm_t comm, int) {
    expect_success(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr), comm);
    expect_success(ncclAlltoAll(nullptr, nullptr, 0, ncclFloat, comm, nullptr), comm);
  });
}

TEST(NcclCollectives, WorkInAGroupOfOne) {
  run_nccl(1, [](ncclComm_t comm, int) {
    float one = 3, out = 0;
    expect_success(ncclAllReduce(&one, &out, 1, ncclFloat, ncclAvg, comm, nullptr), comm);
    EXPECT_EQ(out, 3);
  });
}

}  // namespace
}  // namespace ringwood::testing

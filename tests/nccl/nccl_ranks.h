// Ranks as threads that know each other by an ncclUniqueId, and buffers of NCCL's types.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl/nccl.h"
#include "tests/support/values.h"

namespace ringwood::testing {

inline void expect_success(ncclResult_t result, ncclComm_t comm = nullptr) {
  EXPECT_EQ(result, ncclSuccess) << ncclGetErrorString(result) << ": " << ncclGetLastError(comm);
}

// Each rank's communicator is destroyed after `body`.
inline void run_nccl(int n, const std::function<void(ncclComm_t, int rank)>& body) {
  ncclUniqueId id;
  expect_success(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      expect_success(ncclCommInitRank(&comm, n, id, rank));
      if (!comm) return;
      body(comm, rank);
      expect_success(ncclCommDestroy(comm));
    });
  for (std::thread& thread : threads) thread.join();
}

struct NcclType {
  ncclDataType_t nccl;
  DataType type;
};
// ncclUint64 has no counterpart; its small values look like those of ncclInt64.
inline constexpr NcclType kNcclTypes[] = {{ncclInt8, DataType::int8},
                                          {ncclUint8, DataType::uint8},
                                          {ncclInt32, DataType::int32},
                                          {ncclUint32, DataType::uint32},
                                          {ncclInt64, DataType::int64},
                                          {ncclUint64, DataType::int64},
                                          {ncclFloat16, DataType::float16},
                                          {ncclFloat32, DataType::float32},
                                          {ncclFloat64, DataType::float64},
                                          {ncclBfloat16, DataType::bfloat16},
                                          {ncclFloat8e4m3, DataType::float8_e4m3},
                                          {ncclFloat8e5m2, DataType::float8_e5m2}};

// What a rank contributes: few bits, so that all results below are exact in every type, for 2 and
// for 4 ranks.
inline double given(int rank, size_t i) {
  return (rank == 0 ? 5.0 : 1.0) * static_cast<double>(1 + i % 2);
}

struct NcclBuffer {
  NcclBuffer(size_t count, DataType of) : type(of), bytes(count * size_of(of)) {}
  NcclBuffer(size_t count, DataType of, int rank) : NcclBuffer(count, of) {
    for (size_t i = 0; i < count; ++i) put_value(bytes.data(), i, type, given(rank, i));
  }
  std::byte* at(size_t i) { return bytes.data() + i * size_of(type); }
  double value(size_t i) const { return get_value(bytes.data(), i, type); }

  DataType type;
  std::vector<std::byte> bytes;
};

}  // namespace ringwood::testing

// Test data whose reduction is exact in any order, for every data type and operation; and the check
// of results.
//
// What rank r contributes at place i is a small integer that depends on both, so that data of the
// wrong rank or from the wrong place is seen. The integers are chosen so that every partial result,
// of any subset of ranks in any order, fits the type's significand (8 for float8_e5m2, 16 for
// float8_e4m3, 256 for bfloat16, ...). Only AVG of floats rounds, once; there one unit in the last
// place is allowed. Places repeat with a prime period, so a block is filled and checked at memory
// speed.
//
// The encoding of the small floats is written again here, apart from reduce.h's, because that is
// what is tested. Thread safety: none (tables are made on first use).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "collectives/schedule/collective.h"

namespace ringwood::tools {

class Pattern final {
 public:
  // For data that only moves.
  Pattern(DataType type, int ranks);
  // For data that is reduced. Precondition: supports(type, op). `tolerance`: the communicator's;
  // sums of fp32 may then be so far from right, relative to the largest sum that there can be.
  Pattern(DataType type, ReduceOp op, int ranks, double tolerance = 0);

  // What `rank` contributes at places first, first + 1, ...
  void fill(void* data, size_t count, int rank, size_t first) const;
  // The number of elements that are not what `rank` contributed / not the reduction over `ranks`.
  size_t wrong_contribution(const void* data, size_t count, int rank, size_t first) const;
  size_t wrong_reduction(const void* data, size_t count, RankRange ranks, size_t first) const;
  // PREMUL_SUM: the factor by which this rank's contribution is to be multiplied (1 for every other
  // operation).
  static double factor(ReduceOp op, int rank) {
    return op == ReduceOp::premul_sum ? 1.0 + rank % 2 : 1.0;
  }

 private:
  using Table = std::vector<std::byte>;  // one period of encoded elements

  int64_t value(int rank, size_t place) const;
  double reduced(RankRange ranks, size_t place) const;
  const Table& contribution(int rank) const;
  const Table& reduction(RankRange ranks) const;
  Table encode(const std::vector<double>& values) const;
  size_t count_wrong(const std::byte* data, size_t count, const Table& expected, size_t first,
                     int64_t units) const;
  size_t count_far(const float* data, size_t count, RankRange ranks, size_t first) const;

  DataType type_;
  ReduceOp op_;
  bool reduces_;
  int ranks_;
  double tolerance_ = 0;
  mutable std::map<int, Table> contributions_;
  mutable std::map<std::pair<int, int>, Table> reductions_;  // by the first rank and the count
};

}  // namespace ringwood::tools

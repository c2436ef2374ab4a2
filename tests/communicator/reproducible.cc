// Rows in rank order give the bits of a loop over the ranks, and so those of one another: whatever
// the row, the segments, the root and the place in the buffer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/ranks.h"

namespace ringwood::testing {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kBlock = 1013;  // elements; a buffer is a block per rank
constexpr DataType kTypes[] = {DataType::float32, DataType::bfloat16, DataType::float16,
                               DataType::float8_e4m3};

// Numbers whose sums round nearly always.
Bytes input_of(int rank, int n, DataType type) {
  std::vector<float> values(kBlock * n);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(rank * 7919 + i)) * 3;
  }
  if (type == DataType::float32) {
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  Bytes bytes(values.size() * size_of(type));
  narrow(bytes.data(), values.data(), values.size(), type);
  return bytes;
}

// ((x0 + x1) + x2) + ... in fp32, rounded once.
Bytes sum_of(int n, DataType type) {
  std::vector<float> sum, term(kBlock * n);
  Bytes bytes;
  for (int rank = 0; rank < n; ++rank) {
    bytes = input_of(rank, n, type);
    if (type == DataType::float32) {
      std::memcpy(term.data(), bytes.data(), bytes.size());
    } else {
      widen(term.data(), bytes.data(), term.size(), type);
    }
    if (rank == 0) sum.assign(term.size(), 0);
    for (size_t i = 0; i < term.size(); ++i) sum[i] = rank == 0 ? term[i] : sum[i] + term[i];
  }
  if (type == DataType::float32) {
    std::memcpy(bytes.data(), sum.data(), bytes.size());
  } else {
    narrow(bytes.data(), sum.data(), sum.size(), type);
  }
  return bytes;
}

void expect_bits(const std::byte* got, const std::byte* want, size_t bytes, const std::string& by) {
  if (std::memcmp(got, want, bytes) != 0) throw std::runtime_error(by + ": other bits");
}

void run_row(Communicator& c, const AlgorithmRow& row, DataType type, const CallOptions& call) {
  const int n = c.size();
  const size_t block = kBlock * size_of(type);
  const Bytes want = sum_of(n, type), mine = input_of(c.rank(), n, type);
  const std::string by = fmt::format("{} {} of {} {} in {} segments", to_string(row.collective),
                                     row.name, n, to_string(type), call.segments);
  Bytes data = mine;
  if (row.collective == Collective::all_reduce) {
    must(c.all_reduce(data.data(), kBlock * n, type, ReduceOp::sum, call));
    expect_bits(data.data(), want.data(), data.size(), by);
    return;
  }
  if (row.collective == Collective::reduce) {
    for (int root = 0; root < n; ++root) {
      data = mine;
      must(c.reduce(data.data(), kBlock * n, type, ReduceOp::sum, root, call));
      if (c.rank() == root) expect_bits(data.data(), want.data(), data.size(), by);
    }
    return;
  }
  // Into a buffer of its own, and into the own block.
  Bytes apart(block);
  for (std::byte* out : {apart.data(), data.data() + c.rank() * block}) {
    must(c.reduce_scatter(data.data(), out, kBlock, type, ReduceOp::sum, call));
    expect_bits(out, want.data() + c.rank() * block, block, by);
  }
}

TEST(Reproducible, RowsInRankOrderGiveTheBitsOfALoop) {
  for (int n : {2, 3, 5}) {
    run_ranks(n, n == 5 ? "mixed" : usual_transport(), [](Communicator& c) {
      for (const AlgorithmRow& row : algorithm_table()) {
        if (!row.rank_order || !row.accepts(c.size())) continue;
        for (DataType type : kTypes) {
          for (int segments : {1, 3}) {
            CallOptions call;
            call.algorithm = row.name;
            call.segments = segments;
            run_row(c, row, type, call);
          }
        }
      }
    });
  }
}

// Every row that reduce_scatters also does so into the own block of its input.
TEST(Reproducible, ReduceScatterIntoTheOwnBlock) {
  for (int n : {1, 2, 3, 4, 7}) {
    run_ranks(n, [](Communicator& c) {
      for (const AlgorithmRow& row : algorithm_table()) {
        if (row.collective != Collective::reduce_scatter || !row.accepts(c.size())) continue;
        std::vector<int64_t> data(c.size() * kBlock);
        for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int64_t>(i * (c.rank() + 1));
        const int64_t n = c.size(), first = c.rank() * static_cast<int64_t>(kBlock);
        CallOptions call;
        call.algorithm = row.name;
        must(c.reduce_scatter(data.data(), data.data() + first, kBlock, DataType::int64,
                              ReduceOp::sum, call));
        for (int64_t i = first; i < first + static_cast<int64_t>(kBlock); ++i) {
          if (data[i] != i * n * (n + 1) / 2) throw std::runtime_error(row.name);
        }
      }
    });
  }
}

}  // namespace
}  // namespace ringwood::testing

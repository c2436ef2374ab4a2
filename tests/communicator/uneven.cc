// Collectives whose blocks differ from rank to rank, over every transport: results, and sizes on
// which ranks do not agree.
#include <atomic>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

constexpr DataType kType = DataType::int32;

struct Sizes {
  const char* name;
  size_t (*of)(int rank, int n);
};
const Sizes kSizes[] = {
    {"rising", [](int r, int) { return static_cast<size_t>(r * 997 + 1); }},
    {"every second is empty", [](int r, int) { return static_cast<size_t>(r % 2 ? 1500 : 0); }},
    {"one rank has everything",
     [](int r, int n) { return static_cast<size_t>(r == n - 1 ? 20001 : 0); }},
    {"all alike", [](int, int) { return size_t{100}; }},
    {"nothing", [](int, int) { return size_t{0}; }},
};

double tag(int rank, size_t i) { return static_cast<double>(rank * 100000 + i); }

void must_be(Guarded& buffer, size_t i, double want, const std::string& what) {
  if (buffer[i] != want)
    throw std::runtime_error(
        fmt::format("{}: element {} is {} instead of {}", what, i, buffer[i], want));
  if (i + 1 == buffer.count() && !buffer.guards_intact())
    throw std::runtime_error(what + ": wrote outside its buffer");
}

// One block of each rank.
struct Room {
  std::vector<Guarded> blocks;
  Room(const Sizes& sizes, int n, DataType type = kType) {
    for (int r = 0; r < n; ++r) blocks.emplace_back(sizes.of(r, n), type);
  }
  template <class AnyBlock>
  std::vector<AnyBlock> all() {
    std::vector<AnyBlock> result;
    for (Guarded& b : blocks) result.push_back({b.data(), b.count()});
    return result;
  }
};

class Uneven : public OnTransport {
 protected:
  // `body` by sizes, root, segments, and whether the call is synchronous.
  void each(const std::function<void(Communicator&, const Sizes&, int, const CallOptions&)>& body) {
    for (const int n : {1, 2, 3, 5}) {
      if (n > 3 && (is_emulated(GetParam()) || kSlower > 1)) continue;
      run_ranks(n, GetParam(), [&](Communicator& c) {
        for (const Sizes& sizes : kSizes)
          for (const int segments : {1, 3}) {
            CallOptions call;
            call.uneven = true;
            call.segments = segments;
            call.synchronous = segments == 1;
            for (int root = 0; root < n; ++root) body(c, sizes, root, call);
          }
      });
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, Uneven, ::testing::ValuesIn(every_transport()),
                         [](const auto& info) { return info.param; });

TEST_P(Uneven, Gather) {
  each([](Communicator& c, const Sizes& sizes, int root, const CallOptions& call) {
    Guarded in(sizes.of(c.rank(), c.size()), kType);
    for (size_t i = 0; i < in.count(); ++i) in.set(i, tag(c.rank(), i));
    Room room(sizes, c.rank() == root ? c.size() : 0);
    if (c.rank() == root) room = Room(sizes, c.size());
    must(c.gather({in.data(), in.count()}, room.all<Block>(), kType, root, call));
    for (size_t r = 0; r < room.blocks.size(); ++r) {
      const std::string what = fmt::format("gather, {}, of rank {}", sizes.name, r);
      for (size_t i = 0; i < room.blocks[r].count(); ++i)
        must_be(room.blocks[r], i, tag(static_cast<int>(r), i), what);
    }
  });
}

TEST_P(Uneven, Scatter) {
  each([](Communicator& c, const Sizes& sizes, int root, const CallOptions& call) {
    Room room(sizes, c.size());
    for (int r = 0; r < c.size(); ++r)
      for (size_t i = 0; i < room.blocks[r].count(); ++i)
        room.blocks[r].set(i, tag(r, i) + c.rank());
    Guarded out(sizes.of(c.rank(), c.size()), kType);
    const auto in = c.rank() == root ? room.all<ConstBlock>() : std::vector<ConstBlock>();
    must(c.scatter(in, {out.data(), out.count()}, kType, root, call));
    const std::string what = fmt::format("scatter, {}", sizes.name);
    for (size_t i = 0; i < out.count(); ++i) must_be(out, i, tag(c.rank(), i) + root, what);
  });
}

void reduce_scatter_once(Communicator& c, const Sizes& sizes, DataType type, ReduceOp op,
                         CallOptions call) {
  Room room(sizes, c.size(), type);
  const int n = c.size();
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < room.blocks[r].count(); ++i)
      room.blocks[r].set(i, static_cast<double>(i % 7 + static_cast<size_t>(2 * r + c.rank())));
  Guarded out(sizes.of(c.rank(), n), type);
  call.factor = 2;
  must(c.reduce_scatter(room.all<ConstBlock>(), {out.data(), out.count()}, type, op, call));
  const std::string what = fmt::format("reduce_scatter {} {}, {}, {}", to_string(type),
                                       to_string(op), call.algorithm, sizes.name);
  for (size_t i = 0; i < out.count(); ++i) {
    const double sum =
        n * static_cast<double>(i % 7 + static_cast<size_t>(2 * c.rank())) + n * (n - 1) / 2;
    must_be(out, i, op == ReduceOp::premul_sum ? 2 * sum : sum, what);
  }
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < room.blocks[r].count(); ++i)
      must_be(room.blocks[r], i, static_cast<double>(i % 7 + static_cast<size_t>(2 * r + c.rank())),
              what);
}

TEST_P(Uneven, ReduceScatter) {
  each([](Communicator& c, const Sizes& sizes, int root, const CallOptions& call) {
    if (root > 0) return;
    reduce_scatter_once(c, sizes, kType, ReduceOp::sum, call);
    reduce_scatter_once(c, sizes, DataType::bfloat16, ReduceOp::sum, call);
    reduce_scatter_once(c, sizes, DataType::float32, ReduceOp::premul_sum, call);
    reduce_scatter_once(c, sizes, DataType::float16, ReduceOp::premul_sum, call);
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != Collective::reduce_scatter || !row.accepts(c.size())) continue;
      const std::string_view name = sizes.name;
      const bool even = name == "all alike" || name == "nothing" || c.size() == 1;
      if (row.sizes == BlockSizes::equal && !even) continue;
      CallOptions named = call;
      named.algorithm = row.name;
      reduce_scatter_once(c, sizes, kType, ReduceOp::sum, named);
    }
  });
}

// The mean of 0, 1, 2 is exact, of numbers whose sum would be too large too.
TEST_P(Uneven, AveragesOfReduceScatter) {
  run_ranks(3, GetParam(), [&](Communicator& c) {
    for (const Sizes& sizes : kSizes) {
      Room room(sizes, 3, DataType::float16);
      for (Guarded& block : room.blocks)
        for (size_t i = 0; i < block.count(); ++i) block.set(i, 16384.0 * (1 + c.rank()));
      Guarded out(sizes.of(c.rank(), 3), DataType::float16);
      must(c.reduce_scatter(room.all<ConstBlock>(), {out.data(), out.count()}, DataType::float16,
                            ReduceOp::avg));
      for (size_t i = 0; i < out.count(); ++i) must_be(out, i, 32768, "average");
    }
  });
}

TEST_P(Uneven, AllGatherByEveryRow) {
  each([](Communicator& c, const Sizes& sizes, int root, const CallOptions& call) {
    if (root > 0) return;
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != Collective::all_gather || !row.accepts(c.size())) continue;
      CallOptions named = call;
      named.algorithm = row.name;
      Guarded in(sizes.of(c.rank(), c.size()), kType);
      for (size_t i = 0; i < in.count(); ++i) in.set(i, tag(c.rank(), i));
      Room room(sizes, c.size());
      must(c.all_gather({in.data(), in.count()}, room.all<Block>(), kType, named));
      const std::string what = fmt::format("{}, {}", row.name, sizes.name);
      for (int r = 0; r < c.size(); ++r)
        for (size_t i = 0; i < room.blocks[r].count(); ++i)
          must_be(room.blocks[r], i, tag(r, i), what);
    }
  });
}

// ---- ranks that do not agree -------------------------------------------------------------------

// Starts `call` on all ranks together: each must end with a mismatch that says `words`, and with
// `out` as it was.
void expect_mismatch(
    int n, const std::string& transport, const std::string& words,
    const std::function<OperationPtr(Communicator&, std::vector<int>& out)>& call) {
  std::atomic<int> named{0}, ready{0};
  run_ranks(n, transport, [&](Communicator& c) {
    std::vector<int> out(64, -1);
    start_together(c, ready);
    const Status s = call(c, out)->wait();
    if (s.ok()) throw std::runtime_error("no error");
    const std::string text = s.error().message();
    EXPECT_EQ(s.error().code, ErrorCode::mismatch) << text;
    EXPECT_NE(text.find(words), text.npos) << text;
    EXPECT_EQ(out, std::vector<int>(64, -1)) << "rank " << c.rank();
    ++named;
  });
  EXPECT_EQ(named, n);
}

CallOptions uneven() {
  CallOptions call;
  call.uneven = true;
  return call;
}

// Blocks of `out`, of 1, 2, 3 ... elements.
std::vector<Block> rising(std::vector<int>& out, int n) {
  std::vector<Block> blocks;
  for (int r = 0, at = 0; r < n; at += ++r)
    blocks.push_back({&out[at], static_cast<size_t>(r) + 1});
  return blocks;
}

TEST_P(Uneven, SizesOfAPairInGather) {
  const int in[64] = {};
  for (const int n : {2, 3, 5})
    for (const int root : {0, n - 1})
      for (int wrong = 0; wrong < n; ++wrong) {
        if (wrong == root) continue;
        const std::string words =
            fmt::format("rank {} sends rank {} {} elements while rank {} expects {}", wrong, root,
                        wrong + 3, root, wrong + 1);
        expect_mismatch(n, GetParam(), words, [&](Communicator& c, std::vector<int>& out) {
          const size_t mine = static_cast<size_t>(c.rank()) + (c.rank() == wrong ? 3 : 1);
          return c.gather({in, mine}, c.rank() == root ? rising(out, n) : std::vector<Block>(),
                          kType, root, uneven());
        });
        if (HasFailure()) FAIL() << n << " ranks, root " << root << ", wrong " << wrong;
      }
}

TEST_P(Uneven, SizesOfAPairInScatter) {
  std::vector<int> in(64);
  for (const int n : {2, 3, 5})
    for (const int root : {0, n - 1})
      for (int wrong = 0; wrong < n; ++wrong) {
        if (wrong == root) continue;
        const std::string words =
            fmt::format("rank {} sends rank {} {} elements while rank {} expects {}", root, wrong,
                        wrong + 1, wrong, wrong + 3);
        expect_mismatch(n, GetParam(), words, [&](Communicator& c, std::vector<int>& out) {
          const size_t mine = static_cast<size_t>(c.rank()) + (c.rank() == wrong ? 3 : 1);
          std::vector<ConstBlock> blocks;
          for (const Block& b : rising(in, n)) blocks.push_back({b.data, b.count});
          return c.scatter(c.rank() == root ? blocks : std::vector<ConstBlock>(),
                           {out.data(), mine}, kType, root, uneven());
        });
        if (HasFailure()) FAIL() << n << " ranks, root " << root << ", wrong " << wrong;
      }
}

TEST_P(Uneven, BlocksOfAReduceScatter) {
  for (const int n : {2, 3, 5}) {
    std::vector<int> in(64);
    expect_mismatch(n, GetParam(), "reduce_scatter int32 x",
                    [&](Communicator& c, std::vector<int>& out) {
                      std::vector<ConstBlock> blocks;
                      for (const Block& b : rising(in, n)) blocks.push_back({b.data, b.count});
                      if (c.rank() == n - 1) std::swap(blocks[0].count, blocks[1].count);
                      return c.reduce_scatter(blocks, {out.data(), blocks[c.rank()].count}, kType,
                                              ReduceOp::sum);
                    });
  }
}

// Some say that blocks may differ, others that they do not.
TEST_P(Uneven, IsSaidAlike) {
  const int in[64] = {};
  for (const int n : {2, 3, 5})
    for (const int odd : {0, n - 1}) {
      const std::string one_size = "for blocks of one size while rank";
      expect_mismatch(n, GetParam(), one_size, [&](Communicator& c, std::vector<int>& out) {
        std::vector<Block> blocks;
        for (int r = 0; r < n && c.rank() == 0; ++r) blocks.push_back({&out[2 * r], 2});
        return c.gather({in, 2}, blocks, kType, 0, c.rank() == odd ? uneven() : CallOptions());
      });
      expect_mismatch(n, GetParam(), one_size, [&](Communicator& c, std::vector<int>& out) {
        if (c.rank() == odd) return c.all_to_all(in, out.data(), 2, kType);
        std::vector<ConstBlock> give;
        std::vector<Block> take;
        for (int r = 0; r < n; ++r) {
          give.push_back({&in[2 * r], 2});
          take.push_back({&out[2 * r], 2});
        }
        return c.all_to_all(give, take, kType);
      });
      if (HasFailure()) FAIL() << n << " ranks, rank " << odd << " is the odd one";
    }
}

TEST_P(Uneven, RootsThatDiffer) {
  const int in[64] = {};
  for (const int n : {2, 3, 5})
    expect_mismatch(
        n, GetParam(), ", blocks of any sizes, root ", [&](Communicator& c, std::vector<int>& out) {
          const int root = (c.rank() + 1) % n;
          return c.gather({in, 2}, c.rank() == root ? rising(out, n) : std::vector<Block>(), kType,
                          root, uneven());
        });
}

TEST(UnevenMistakes, AreRefused) {
  run_ranks(2, [](Communicator& c) {
    int x[4] = {}, y[4] = {};
    const auto refused = [](const auto& call) { return std::string(error_of(call).what()); };
    const auto mine = static_cast<size_t>(c.rank());
    EXPECT_EQ(refused([&] {
                c.reduce_scatter({{x, 1}, {x + 1, 2}}, {y, 3}, kType, ReduceOp::sum);
              }),
              fmt::format("reduce_scatter: this rank's input block has {} elements but the output "
                          "has 3 (invalid_argument)",
                          mine + 1));
    if (c.rank() == 1) return;
    EXPECT_EQ(refused([&] {
                c.gather({x, 2}, {{y, 1}, {y + 1, 3}}, kType, 0, uneven());
              }),
              "gather: a block of 1 elements among blocks of 2 (invalid_argument)");
    EXPECT_EQ(refused([&] {
                c.gather({x, 1}, {{y, 1}, {y + 1, 3}}, kType, 0);
              }),
              "gather: a block of 3 elements among blocks of 1 (invalid_argument)");
  });
}

}  // namespace
}  // namespace ringwood::testing

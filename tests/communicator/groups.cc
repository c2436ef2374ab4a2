// Large buffers, rounding, bits, and groups beside and after each other.
#include <atomic>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/inputs.h"
#include "tests/support/link_ranks.h"
#include "tests/support/ranks.h"
#include "tests/support/transports.h"
#include "tests/support/values.h"

namespace ringwood::testing {
namespace {

struct LargeCase {
  std::string transports;
  int n;
  DataType type;
};
void PrintTo(const LargeCase& one, std::ostream* out) { *out << one.transports; }
std::vector<LargeCase> large_cases() {
  constexpr DataType kTypes[] = {DataType::int8, DataType::float32, DataType::uint8,
                                 DataType::bfloat16};
  std::vector<LargeCase> all;
  for (const std::string& t : every_transport()) {
    const int n = static_cast<int>(all.size());
    all.push_back({t, t == "mixed" ? 4 : 2 + n % 2, kTypes[n % std::size(kTypes)]});
  }
  return all;
}
class Large : public OnTransportOf<LargeCase> {};
INSTANTIATE_TEST_SUITE_P(Sampled, Large, ::testing::ValuesIn(large_cases()));

// The inputs repeat after three elements, so blocks of many periods are copied and compared whole.
template <class Value>
std::vector<std::byte> block_of(DataType type, Value value) {
  constexpr size_t kPeriods = 3 * 4096;
  std::vector<std::byte> block(kPeriods * size_of(type));
  for (size_t i = 0; i < kPeriods; ++i) put_value(block.data(), i, type, value(i));
  return block;
}

TEST_P(Large, SixtyFourMebiPlusOneElements) {
  if (kSlow || is_emulated(GetParam().transports))
    GTEST_SKIP() << "where this is slow the smaller sizes take the same paths";
  const size_t count = (size_t{64} << 20) + 1;
  const DataType type = GetParam().type;
  const size_t bytes = count * size_of(type);
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    const auto in =
        block_of(type, [&](size_t i) { return input(type, ReduceOp::sum, i, c.rank()); });
    const auto out =
        block_of(type, [&](size_t i) { return expected(type, ReduceOp::sum, i, c.size()); });
    auto data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    for (size_t at = 0; at < bytes; at += in.size())
      std::memcpy(&data[at], in.data(), std::min(in.size(), bytes - at));
    must(c.all_reduce(data.get(), count, type, ReduceOp::sum));
    for (size_t at = 0; at < bytes; at += out.size())
      if (std::memcmp(&data[at], out.data(), std::min(out.size(), bytes - at)))
        throw std::runtime_error(fmt::format("wrong within {} bytes of {}", out.size(), at));
  });
}

// One rounding at the end: the bits are those of the fp32 sum.
TEST(Accumulation, SixteenBitFloatsRoundOnce) {
  const int n = 7;
  const size_t count = 5003;
  for (DataType type : {DataType::bfloat16, DataType::float16, DataType::float8_e4m3})
    run_ranks(n, [&](Communicator& c) {
      const auto value = [](int rank, size_t i) {
        return std::sin(static_cast<float>(rank * 131 + i)) * 3;
      };
      std::vector<std::byte> data(count * size_of(type)), want(data.size());
      std::vector<float> mine(count), sum(count, 0), term(count);
      std::vector<std::byte> rounded(data.size());
      for (size_t i = 0; i < count; ++i) mine[i] = static_cast<float>(value(c.rank(), i));
      narrow(data.data(), mine.data(), count, type);
      must(c.all_reduce(data.data(), count, type, ReduceOp::sum));
      // In double: the fp32 order may differ, so allow the neighbour only where fp32 itself is in
      // doubt.
      std::vector<double> exact(count, 0);
      for (int r = 0; r < n; ++r) {
        for (size_t i = 0; i < count; ++i) term[i] = static_cast<float>(value(r, i));
        narrow(rounded.data(), term.data(), count, type);
        widen(term.data(), rounded.data(), count, type);
        for (size_t i = 0; i < count; ++i) exact[i] += term[i];
      }
      for (size_t i = 0; i < count; ++i) sum[i] = static_cast<float>(exact[i]);
      narrow(want.data(), sum.data(), count, type);
      size_t different = 0;
      for (size_t i = 0; i < count; ++i)
        different +=
            std::memcmp(&want[i * size_of(type)], &data[i * size_of(type)], size_of(type)) != 0;
      if (different > count / 500)
        throw std::runtime_error(fmt::format("{} of {} rounded more than once", different, count));
    });
}

TEST(Bits, AreTheSameOnAllRanksWhateverTheAlgorithm) {
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != Collective::all_reduce || !row.accepts(5)) continue;
    std::vector<std::vector<float>> results(5);
    run_ranks(5, [&](Communicator& c) {
      auto& data = results[c.rank()];
      for (int i = 0; i < 20011; ++i)
        data.push_back(std::sin(static_cast<float>(c.rank() * 7919 + i)) * 1e3f);
      CallOptions call;
      call.algorithm = row.name;
      must(c.all_reduce(data.data(), data.size(), DataType::float32, ReduceOp::sum, call));
    });
    for (int r = 1; r < 5; ++r)
      EXPECT_EQ(0, std::memcmp(results[0].data(), results[r].data(), results[0].size() * 4))
          << row.name << " rank " << r;
  }
}

TEST(Groups, AloneEverythingIsLocal) {
  run_ranks(1, [&](Communicator& c) {
    float x[3] = {1, 2, 3}, y[3] = {};
    must(c.all_reduce(x, 3, DataType::float32, ReduceOp::avg));
    must(c.all_gather(x, y, 3, DataType::float32));
    must(c.broadcast(x, 3, DataType::float32, 0));
    must(c.barrier());
    if (y[2] != 3) throw std::runtime_error("all_gather alone");
  });
}

TEST(Groups, TwoInFlightInOppositeOrder) {
  auto first = memory_store(), second = memory_store();
  std::vector<std::thread> ranks;
  std::atomic<int> good{0};
  for (int r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      auto a = Communicator::create(first, r, 3, options_for(r));
      auto b = Communicator::create(second, r, 3, options_for("tcp", r));
      for (int k = 0; k < 50; ++k) {
        std::vector<int64_t> x(5000, r), y(7000, r);
        const auto on_a = [&] {
          return a->all_reduce(x.data(), x.size(), DataType::int64, ReduceOp::sum);
        };
        const auto on_b = [&] {
          return b->all_reduce(y.data(), y.size(), DataType::int64, ReduceOp::sum);
        };
        OperationPtr p, q;
        if (r % 2) {
          q = on_b();
          p = on_a();
        } else {
          p = on_a();
          q = on_b();
        }
        must(q);
        must(p);
        if (x[4999] == 3 && y[6999] == 3) ++good;
      }
    });
  for (auto& t : ranks) t.join();
  EXPECT_EQ(good.load(), 150);
}

TEST(Groups, TheSameStoreServesOneAfterTheOther) {
  auto store = std::make_shared<TidyStore>();
  for (int generation = 0; generation < 5; ++generation) {
    std::vector<std::thread> ranks;
    for (int r = 0; r < 3; ++r)
      ranks.emplace_back([&, r] {
        auto c = Communicator::create(store, r, 3, options_for(r));
        int x = r;
        must(c->all_reduce(&x, 1, DataType::int32, ReduceOp::sum));
        if (x != 3) ADD_FAILURE() << x;
      });
    for (auto& t : ranks) t.join();
  }
  EXPECT_EQ(store->left(), std::set<std::string>());
}

}  // namespace
}  // namespace ringwood::testing

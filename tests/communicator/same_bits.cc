// All ranks end with the same bits, for every row, type and operation, whatever the numbers: zeros
// of both signs, NaN of all kinds, infinities. And so does every way of carrying an operation out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "tests/support/inputs.h"
#include "tests/support/ranks.h"
#include "tests/support/special_numbers.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

struct Case {
  std::string transports;
  int n;
};
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", info.param.transports, info.param.n);
}
std::vector<Case> cases() {
  std::vector<Case> all;
  std::vector<std::string> groups = every_transport();
  for (const std::string& t : every_sharing("zero_copy")) groups.push_back(t);
  for (const std::string& t : groups)
    for (int n : kSlow ? std::vector<int>{2, 3} : std::vector<int>{2, 3, 4, 5, 7})
      if (n <= 4 || in_shared_memory(t)) all.push_back({t, n});
  return all;
}

size_t turn_of(const Case& group) {
  const std::vector<Case> all = cases();
  size_t turn = 0;
  while (all[turn].transports != group.transports || all[turn].n != group.n) ++turn;
  return turn;
}

class SameBits : public OnTransportOf<Case> {};
INSTANTIATE_TEST_SUITE_P(Groups, SameBits, ::testing::ValuesIn(cases()), name_of);

// What a rank has found, in the order of the calls, which is the same on all.
struct Found {
  std::string what;
  std::vector<std::byte> bytes;
};

std::vector<std::vector<Found>> results(size_t ranks) {
  return std::vector<std::vector<Found>>(ranks);
}

void expect_same_on_all(const std::vector<std::vector<Found>>& of_rank) {
  for (size_t k = 0; k < of_rank[0].size(); ++k)
    for (size_t r = 1; r < of_rank.size(); ++r) {
      ASSERT_EQ(of_rank[r].size(), of_rank[0].size());
      ASSERT_EQ(of_rank[r][k].what, of_rank[0][k].what);
      EXPECT_EQ(of_rank[r][k].bytes, of_rank[0][k].bytes)
          << of_rank[0][k].what << ": ranks 0 and " << r << " differ";
    }
}

// Small ones go in one round, the largest in one pass where peers read and write in place.
constexpr size_t kCounts[] = {1, 37, 1500, 70000};

TEST_P(SameBits, AllReduceOfEveryRowTypeAndOperation) {
  auto found = results(GetParam().n);
  const size_t turn = turn_of(GetParam());
  run_ranks(GetParam().n, GetParam().transports, [&](Communicator& c) {
    size_t nth = 0;
    for (const AlgorithmRow& row : algorithm_table()) {
      if (row.collective != Collective::all_reduce || !row.accepts(c.size())) continue;
      for (int t = 0; t < kDataTypes; ++t)
        for (int o = 0; o < kReduceOps; ++o) {
          const auto type = static_cast<DataType>(t);
          const auto op = static_cast<ReduceOp>(o);
          if (!supports(type, op)) continue;
          ++nth;
          for (size_t count : kCounts) {
            if (count > 1500 && (nth + turn) % 21) continue;  // in 25 groups most of them once
            CallOptions call;
            call.algorithm = row.name;
            call.factor = 0.3;
            Guarded data(count, type);
            fill_special(data.data(), count, type, static_cast<int>(nth) * 1000 + c.rank());
            must(c.all_reduce(data.data(), count, type, op, call));
            found[c.rank()].push_back(
                {fmt::format("{} {} {} x {}", row.name, to_string(type), to_string(op), count),
                 {data.data(), data.data() + count * size_of(type)}});
          }
        }
    }
  });
  expect_same_on_all(found);
}

}  // namespace
}  // namespace ringwood::testing

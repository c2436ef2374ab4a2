// The interpreter of devices, carried out by the host's threads: every row of the table leaves the
// bits of the schedules' own interpreter and the CPU's kernels. Under the thread sanitizer this
// also shows that its memory orders suffice.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/device/device_threads.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"

namespace ringwood::testing {
namespace {

struct Pair {
  DataType type;
  ReduceOp op;
};
// Those that are supported; each once.
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const TypeTraits& type : kTypeTraits)
    for (const OpTraits& op : kOpTraits)
      if (supports(type.type, op.op)) pairs.push_back({type.type, op.op});
  return pairs;
}

constexpr int kRounds = 3;
int g_cases = 0;  // that were carried out

// "": right, or not to be carried out.
std::string outcome(const DeviceCase& of, uint64_t seed) {
  DeviceRanks ranks(of, kRounds, seed);
  if (ranks.too_large()) return "";
  ++g_cases;
  return run_on_threads(ranks, kRounds, 2);
}
void tell_cases() {
  fmt::print("{} cases of {} operations each\n", std::exchange(g_cases, 0), kRounds);
}

class EveryRowOnThreads : public ::testing::TestWithParam<const AlgorithmRow*> {
 public:
  static void TearDownTestSuite() { tell_cases(); }
};

// Each case has the next type and operation, so that a row meets all of them.
TEST_P(EveryRowOnThreads, LeavesTheBitsOfTheSchedule) {
  const AlgorithmRow& row = *GetParam();
  const std::vector<Pair> pairs = all_pairs();
  size_t next = static_cast<size_t>(&row - algorithm_table().data());
  const size_t stride = reduces(row.collective) ? 7 : 10;
  for (int n = 2; n <= (kSlower > 1 ? 5 : 8); ++n)
    for (const bool packets : {false, true})
      for (const size_t count : {size_t{1}, size_t{37}, size_t{1500}}) {
        const Pair pair = pairs[(next += stride) % pairs.size()];
        DeviceCase of{&row, n, has_root(row.collective) ? n - 1 : 0, pair.type, pair.op, count};
        of.segments = count > 100 ? 2 : count > 1 ? 1 : 3;  // also without data
        of.packets = packets;
        of.staged = next % 3 == 0;
        if (is_possible(of)) {
          EXPECT_EQ(outcome(of, next), "");
        }
      }
}
INSTANTIATE_TEST_SUITE_P(Table, EveryRowOnThreads, ::testing::ValuesIn(rows_with_data()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", to_string(row.param->collective),
                                              row.param->name);
                         });

class EveryNumberOnThreads : public ::testing::TestWithParam<DataType> {
 public:
  static void TearDownTestSuite() { tell_cases(); }
};

// Rows that add everything in one pass, in several, and in rows between which others lie; numbers
// among which are NaN, infinities and zeros of both signs.
TEST_P(EveryNumberOnThreads, HasTheBitsOfTheCpu) {
  const std::pair<Collective, const char*> rows[] = {
      {Collective::all_reduce, "direct"},     {Collective::all_reduce, "one_shot"},
      {Collective::all_reduce, "ring"},       {Collective::reduce_scatter, "pat"},
      {Collective::reduce_scatter, "direct"},
  };
  uint64_t seed = 1;
  for (const auto& [collective, name] : rows) {
    const AlgorithmRow* const row = find_algorithm(collective, name);
    ASSERT_TRUE(row) << name;
    for (const OpTraits& op : kOpTraits)
      for (const int n : kSlower > 1 ? std::vector{3} : std::vector{2, 3, 5})
        for (const bool packets : {false, true})
          for (const bool specials : {false, true}) {
            DeviceCase of{row, n, 0, GetParam(), op.op, 150};
            of.packets = packets;
            of.specials = specials;
            if (is_possible(of)) {
              EXPECT_EQ(outcome(of, ++seed), "");
            }
          }
  }
}
INSTANTIATE_TEST_SUITE_P(Types, EveryNumberOnThreads, ::testing::ValuesIn([] {
                           std::vector<DataType> types;
                           for (const TypeTraits& type : kTypeTraits) types.push_back(type.type);
                           return types;
                         }()),
                         [](const auto& type) { return to_string(type.param); });

// Packets of 2^32 operations ago carry the stamp of an operation that comes.
TEST(AgedWindow, DoesNotTakeOldPacketsForNew) {
  DeviceCase of{find_algorithm(Collective::all_reduce, "one_shot"),
                3,
                0,
                DataType::float32,
                ReduceOp::sum,
                20};
  of.packets = true;
  // The second operation has the parity that the first one does not write.
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    DeviceRanks ranks(of, 4, seed);
    ranks.age((uint64_t{1} << 31) - 1, (uint32_t{1} << 31) + 1);
    EXPECT_EQ(run_on_threads(ranks, 4, 2), "");
  }
}

// ---- what stops a kernel

DeviceCase pair_of_ranks() {
  return {
      find_algorithm(Collective::all_reduce, "direct"), 2, 0, DataType::float32, ReduceOp::sum, 64};
}
// Every report, by rank.
std::vector<device::Report> reports_of(DeviceRanks& ranks, const std::vector<int>& present) {
  std::vector<std::jthread> threads;
  std::vector<std::unique_ptr<device::BlockMemory>> memory;
  for (const int rank : present)
    threads.emplace_back(
        [&ranks, rank,
         shared = memory.emplace_back(std::make_unique<device::BlockMemory>()).get()] {
          device::BlockBarrier alone(1);
          device::host_kernel(ranks.kernel())(device::HostMachine{0, 1, 0, &alone}, *shared,
                                              ranks.launch(rank, 0));
        });
  threads.clear();
  std::vector<device::Report> reports;
  for (int rank = 0; rank < ranks.ranks(); ++rank) reports.push_back(ranks.report(rank, 0));
  return reports;
}
device::Code code_of(const device::Report& report) {
  return static_cast<device::Code>(report.code);
}

TEST(StoppedKernel, OfADifferentCallIsNamedByBothAndChangesNothing) {
  DeviceRanks ranks(pair_of_ranks(), 1, 1);
  for (const int rank : {0, 1}) ranks.write(rank, 0);
  const auto before = ranks.user_memory(1, 0)[0];
  const std::vector<std::byte> kept(before.base, before.base + before.bytes);
  ranks.launch(1, 0).digest = 78;
  const auto reports = reports_of(ranks, {0, 1});
  for (const int rank : {0, 1}) {
    EXPECT_EQ(code_of(reports[rank]), device::Code::mismatch);
    EXPECT_EQ(reports[rank].peer, 1u - static_cast<uint32_t>(rank));
    EXPECT_EQ(reports[rank].complete, 1u);
  }
  EXPECT_EQ(reports[0].seen, 78u);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), before.base));
}

TEST(StoppedKernel, WithoutItsPeerEndsAtTheLimit) {
  DeviceRanks ranks(pair_of_ranks(), 1, 1);
  ranks.launch(0, 0).limit_ns = 20'000'000;
  const auto reports = reports_of(ranks, {0});
  EXPECT_EQ(code_of(reports[0]), device::Code::timeout);
  EXPECT_EQ(reports[0].peer, 1u);
  EXPECT_EQ(reports[0].sequence, 1u);
}

TEST(StoppedKernel, EndsWhenTheHostAborts) {
  DeviceRanks ranks(pair_of_ranks(), 1, 1);
  ranks.abort();
  EXPECT_EQ(code_of(reports_of(ranks, {0})[0]), device::Code::aborted);
}

// A place comes from a peer: it is not trusted.
TEST(StoppedKernel, RefusesAPlaceOutsideOfWhatIsMapped) {
  for (const uint64_t place :
       {uint64_t{1} << 40, uint64_t{7} << 56, uint64_t{200} << 56, (uint64_t{1} << 56) - 8}) {
    DeviceRanks ranks(pair_of_ranks(), 1, 1);
    for (const int rank : {0, 1}) ranks.write(rank, 0);
    ranks.launch(0, 0).limit_ns = 50'000'000;
    ranks.launch(1, 0).limit_ns = 50'000'000;
    ranks.launch(1, 0).place[0] = place;
    EXPECT_EQ(code_of(reports_of(ranks, {0, 1})[1]), device::Code::bad_place) << place;
  }
}

TEST(StoppedKernel, RefusesToRunBesideAnotherOfItsGroup) {
  DeviceRanks ranks(pair_of_ranks(), 1, 1);
  ranks.launch(0, 0).limit_ns = 20'000'000;
  const device::Launch& launch = ranks.launch(0, 0);
  auto* const busy = reinterpret_cast<uint64_t*>(launch.arena[0] + launch.window.busy(0));
  *busy = 1;
  EXPECT_EQ(code_of(reports_of(ranks, {0})[0]), device::Code::busy);
  EXPECT_EQ(*busy, 1u) << "the other one's mark stays";
}

}  // namespace
}  // namespace ringwood::testing

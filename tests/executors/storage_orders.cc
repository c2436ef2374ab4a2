// Elements that lie in memory in another order than that of their indices (plan/fingerprint.h): the
// ranks find out whether all lie alike, and every sum is right, whether they do or not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "collectives/algorithms/algorithms.h"
#include "tests/executors/layouts.h"
#include "tests/support/stepped.h"
#include "tests/support/transports.h"

namespace ringwood::testing {
namespace {

// Every order of every split of 24 elements into dimensions.
TEST(StorageOrder, IsEqualWhereTheElementsLieAlike) {
  std::map<uint32_t, std::set<std::vector<size_t>>> places_of;
  std::map<std::vector<size_t>, std::set<uint32_t>> orders_of;
  const std::vector<std::vector<int64_t>> splits = {{24},      {2, 12},   {12, 2},   {3, 8},
                                                    {4, 6},    {6, 4},    {2, 3, 4}, {4, 3, 2},
                                                    {1, 8, 3}, {3, 1, 8}, {2, 2, 6}, {2, 2, 2, 3}};
  for (const auto& sizes : splits) {
    std::vector<size_t> dimensions(sizes.size());
    std::iota(dimensions.begin(), dimensions.end(), size_t{0});
    do {
      const Layout layout = Layout::of(sizes, dimensions);
      std::vector<size_t> places(layout.count());
      for (size_t i = 0; i < places.size(); ++i) places[i] = layout.place(i);
      places_of[layout.order()].insert(places);
      orders_of[places].insert(layout.order());
    } while (std::ranges::next_permutation(dimensions).found);
  }
  EXPECT_GT(places_of.size(), 20u);
  for (const auto& [order, places] : places_of) EXPECT_EQ(places.size(), 1u) << order;
  for (const auto& [places, orders] : orders_of) {
    EXPECT_EQ(orders.size(), 1u);
    EXPECT_EQ(orders.contains(0), std::ranges::is_sorted(places));
  }
}

TEST(StorageOrder, DoesNotSeeStridesThatAreNeverTaken) {
  EXPECT_EQ(storage_order(std::vector<int64_t>{1, 4}, std::vector<int64_t>{77, 1}), 0u);
  EXPECT_EQ(storage_order(std::vector<int64_t>{}, std::vector<int64_t>{}), 0u);
}

// A sum by these ranks, each with its elements in a layout of its own. A rank that states an order
// does what an operation does (operations/operation.cc): it waits for the agreement, and then puts
// its elements in the order of their indices, unless all have stated the same.
class Sum {
 public:
  Sum(Runner& runner, const std::vector<Layout>& layouts, const std::vector<Schedule>& schedules)
      : runner_(runner), layouts_(layouts), n_(layouts.size()) {
    const CollectiveArgs args = sum_of(layouts[0].count());
    for (size_t r = 0; r < n_; ++r) {
      std::vector<int64_t>& mine = memory_.emplace_back(args.count);
      for (size_t i = 0; i < args.count; ++i) mine[layouts[r].place(i)] = value(r, i);
    }
    for (size_t r = 0; r < n_; ++r) {
      const Wire wire{WireFormat::exact, runner.hosts, /*apart=*/runner.hosts.empty()};
      plans_.push_back(make_plan(schedules[r], args, "test", 1, Protocol::queued, wire));
      if (runner.slots && slots_to_all(*runner.meshes[r]))
        *plans_[r] = add_slots(std::move(*plans_[r]));
      buffers_.push_back(memory_[r].data());
    }
    for (size_t r = 0; r < n_; ++r) {
      Fingerprint call = plans_[r]->fingerprint;
      call.sequence = runner.sequence;
      call.blocks = layouts[r].order();
      const bool delays = call.blocks != 0;
      runner.executors[r]->start({plans_[r].get(), call, {&buffers_[r], 1}, {}, {}, delays});
    }
    ++runner.sequence;
  }

  void run(std::mt19937& random) {
    const size_t slow = random() % (2 * n_);  // this rank hardly moves, if there is such a rank
    std::vector<bool> released(n_);
    for (const Deadline bound = patiently(); !done();) {
      ASSERT_FALSE(bound.passed());
      const size_t r = random() % n_;
      PlanRunner& mine = *runner_.executors[r];
      if (mine.idle() || (r == slow && random() % 100)) continue;
      bool progressed = false;
      const Status s = mine.step(progressed);
      ASSERT_TRUE(s.ok()) << s.error().message();
      if (released[r] || !mine.agreed() || layouts_[r].order() == 0) continue;
      released[r] = true;
      if (mine.order() != layouts_[r].order()) by_index(r);
      mine.release();
    }
  }
  // How the elements lie in the end, and their sums.
  void check(const std::string& what) const {
    const bool alike = std::ranges::all_of(
        layouts_, [&](const Layout& l) { return l.order() == layouts_[0].order(); });
    for (size_t r = 0; r < n_; ++r) {
      EXPECT_EQ(runner_.executors[r]->order(), alike ? layouts_[0].order() : 0) << what;
      for (size_t i = 0; i < memory_[r].size(); ++i) {
        int64_t want = 0;
        for (size_t k = 0; k < n_; ++k) want += value(k, i);
        ASSERT_EQ(memory_[r][alike ? layouts_[r].place(i) : i], want) << what << ", rank " << r;
      }
    }
  }

 private:
  static int64_t value(size_t rank, size_t i) { return static_cast<int64_t>(i * 31 + rank * 7); }
  bool done() const {
    return std::ranges::all_of(runner_.executors, [](const auto& e) { return e->idle(); });
  }
  void by_index(size_t rank) {
    const std::vector<int64_t> before = memory_[rank];
    for (size_t i = 0; i < before.size(); ++i) memory_[rank][i] = before[layouts_[rank].place(i)];
  }

  Runner& runner_;
  const std::vector<Layout> layouts_;
  const size_t n_;
  Memory memory_;
  std::vector<void*> buffers_;
  std::vector<std::shared_ptr<Plan>> plans_;
};

// Which layout each rank has: all alike, all but one, or any.
std::vector<Layout> some_layouts(size_t n, size_t count, std::mt19937& random) {
  const std::vector<Layout> all = layouts_of(count);
  const auto any = [&] { return all[random() % all.size()]; };
  std::vector<Layout> layouts(n, any());
  const auto kind = random() % 3;
  if (kind == 1) layouts[random() % n] = any();
  if (kind == 2) std::ranges::generate(layouts, any);
  return layouts;
}

void expect_right_sums(Runner& runner, const std::string& row, size_t n, std::mt19937& random) {
  const Where where{0, static_cast<int>(n), 0, runner.hosts};
  const AlgorithmRow& algorithm = *find_algorithm(Collective::all_reduce, row);
  if (!algorithm.accepts(where)) return;
  const auto schedules = build_all(algorithm, where);
  for (int again = 0; again < 12; ++again) {
    const size_t count = 60 * (1 + random() % 60);
    Sum sum(runner, some_layouts(n, count, random), schedules);
    sum.run(random);
    if (::testing::Test::HasFatalFailure()) return;
    sum.check(fmt::format("{} of {} ranks, call {}", row, n, runner.sequence));
  }
}

TEST(StorageOrders, ByMessages) {
  for (const size_t n : {1, 2, 3, 5, 8})
    for (const std::string row : {"ring", "direct", "double_tree"})
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        std::mt19937 random(static_cast<unsigned>(seed));
        Runner runner(static_cast<int>(n), LoopbackFaults{.seed = seed, .delay = 4});
        expect_right_sums(runner, row, n, random);
      }
}

TEST(StorageOrders, BySlots) {
  for (const size_t n : {2, 3, 5}) {
    std::mt19937 random(static_cast<unsigned>(n));
    Runner runner(make_meshes(static_cast<int>(n), shared_memory_transport().make));
    ASSERT_TRUE(slots_to_all(*runner.meshes[0]));
    for (const std::string row : {"ring", "direct"}) expect_right_sums(runner, row, n, random);
  }
}

// Those of one host by its leader, and a host of two levels.
TEST(StorageOrders, ByHosts) {
  const std::vector<std::vector<int>> placements = {
      {0, 0, 1, 1}, {0, 1, 2, 0, 1, 2, 2}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
  for (const std::vector<int>& hosts : placements)
    for (const std::string row : {"ring", "hierarchical_leaders"})
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        std::mt19937 random(static_cast<unsigned>(seed));
        Runner runner(static_cast<int>(hosts.size()), LoopbackFaults{.seed = seed, .delay = 4});
        runner.hosts = hosts;
        expect_right_sums(runner, row, hosts.size(), random);
      }
}

}  // namespace
}  // namespace ringwood::testing

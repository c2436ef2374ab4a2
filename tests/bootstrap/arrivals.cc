// The list of the processes that came to a store, across the ends of groups and of processes.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/patience.h"
#include "tests/support/told_store.h"
#include "transports/base/options.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/meet/arrivals.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using Numbers = std::vector<int64_t>;

Hello hello_of(int rank) {
  Hello hello;
  hello.rank = rank;
  return hello;
}

Numbers fresh(Arrivals& root) {
  Numbers numbers;
  for (const auto& [number, hello] : root.fresh()) numbers.push_back(number);
  return numbers;
}

TEST(Arrivals, AreReadAgainUntilARankZeroHasServedThem) {
  const auto store = memory_store();
  Arrivals rank(store, patiently()), killed(store, patiently()), root(store, patiently());
  EXPECT_EQ(rank.add(hello_of(1)), 1);
  EXPECT_TRUE(rank.is_first(1));
  EXPECT_EQ(fresh(killed), Numbers{1});
  EXPECT_EQ(fresh(killed), Numbers{});
  EXPECT_EQ(fresh(root), Numbers{1});
  root.finish({1});
  EXPECT_TRUE(rank.unserved().empty());
  EXPECT_EQ(rank.add(hello_of(1)), 2);
  EXPECT_TRUE(rank.is_first(2));
  Arrivals next(store, patiently());
  EXPECT_EQ(fresh(next), Numbers{2});
}

TEST(Arrivals, OneThatHasANumberAndSaysHelloLaterIsHeard) {
  const auto store = memory_store();
  Arrivals slow(std::make_shared<ToldStore>(store,
                                            [&](const std::string& call) {
                                              if (call == "set hello/1")
                                                throw Error(ErrorCode::network, "delayed");
                                            }),
                patiently());
  EXPECT_THROW(slow.add(hello_of(1)), Error);
  Arrivals rank(store, patiently()), root(store, patiently());
  rank.add(hello_of(2));
  EXPECT_EQ(fresh(root), Numbers{2});
  store->set("hello/1", encode(hello_of(1)));
  EXPECT_EQ(fresh(root), Numbers{1});
}

TEST(Arrivals, WhoComesAsTheListIsRemovedAddsItselfAgain) {
  const auto store = memory_store();
  Arrivals first(store, patiently()), next(store, patiently());
  first.add(hello_of(1));
  int64_t number = 0;
  Arrivals root(std::make_shared<ToldStore>(store,
                                            [&](const std::string& call) {
                                              if (call == "remove arrivals")
                                                number = next.add(hello_of(1));
                                            }),
                patiently());
  EXPECT_EQ(fresh(root), Numbers{1});
  root.finish({1});
  root.remove();
  EXPECT_EQ(number, 2);
  EXPECT_TRUE(next.is_lost(number));
  EXPECT_EQ(next.add(hello_of(1)), 1);
  EXPECT_FALSE(next.is_lost(1));
}

TEST(Arrivals, OfTheNextGroupKeepTheList) {
  const auto store = memory_store();
  Arrivals first(store, patiently()), next(store, patiently()), root(store, patiently());
  first.add(hello_of(1));
  EXPECT_EQ(fresh(root), Numbers{1});
  root.finish({1});
  EXPECT_EQ(next.add(hello_of(1)), 2);
  root.remove();
  EXPECT_FALSE(next.is_lost(2));
  Arrivals after(store, patiently());
  EXPECT_EQ(fresh(after), Numbers{2});
}

// Of a group of two, in this order: rank 0, rank 1.
using Two = std::array<std::unique_ptr<Bootstrap>, 2>;
Two two_that_have_met(const std::shared_ptr<Store>& store, const Options& options) {
  Two two;
  for (int rank : {0, 1})
    two[static_cast<size_t>(rank)] = std::make_unique<Bootstrap>(store, rank, 2, options);
  const auto meet = [](Bootstrap& one) {
    std::string announcement;
    one.meet([](const std::string&) { return ""; }, announcement);
  };
  std::thread rank_1(meet, std::ref(*two[1]));
  meet(*two[0]);
  rank_1.join();
  return two;
}

Options patient() {
  Options options;
  options.init_timeout = kPatience;
  return options;
}

TEST(Arrivals, OfTheNextGroupStayWhenARankOfTheLastGivesUp) {
  const auto store = memory_store();
  const Options options = patient();
  const Two two = two_that_have_met(store, options);
  two[0]->remove_keys();
  Arrivals next(store, patiently()), root(store, patiently());
  EXPECT_EQ(next.add(hello_of(1)), 1);
  two[1]->give_up();
  EXPECT_EQ(fresh(root), Numbers{1});
}

TEST(Arrivals, OfASecondProcessThatComesAtTheEndLeavesNothing) {
  const auto store = memory_store();
  const Options options = patient();
  const Two two = two_that_have_met(store, options);
  two[1]->store().set("twice", "told");
  two[0]->remove_keys();
  EXPECT_FALSE(two[1]->store().has("twice"));
}

// Rank 0 removes the keys of a group while the others come for the next.
TEST(Arrivals, OfGroupsThatFollowEachOtherAreNeverLost) {
  constexpr int kRanks = 4, kGroups = 200;
  const auto store = memory_store();
  const Options options = patient();
  std::barrier all_have_met(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      for (int group = 0; group < kGroups; ++group) {
        Bootstrap bootstrap(store, rank, kRanks, options);
        std::string announcement = "group " + std::to_string(group);
        const auto all = bootstrap.meet(
            [&](const std::string& said) { return said + std::to_string(rank); }, announcement);
        for (int r = 0; r < kRanks; ++r)
          EXPECT_EQ(all[static_cast<size_t>(r)],
                    "group " + std::to_string(group) + std::to_string(r));
        all_have_met.arrive_and_wait();
        bootstrap.remove_keys();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_FALSE(store->has("arrivals"));
}

}  // namespace
}  // namespace ringwood

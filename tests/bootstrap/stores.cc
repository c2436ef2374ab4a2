// Every store keeps the same promises, between threads and between processes.
#include "transports/bootstrap/store.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Two views of one store, as two ranks have them.
struct Pair {
  std::shared_ptr<Store> a, b;
};

struct Kind {
  const char* name;
  Pair (*open)(const std::string& path);
  bool bounded;     // refuses what is too large
  bool persistent;  // keeps the values in a file
};

Pair open_memory(const std::string&) {
  auto store = memory_store();
  return {store, store};
}
Pair open_file(const std::string& path) { return {file_store(path), file_store(path)}; }
Pair open_tcp(const std::string&) {
  auto server = tcp_store("localhost", 0, true, patiently());
  return {server, tcp_store("localhost", tcp_store_port(*server), false, patiently())};
}
Pair open_prefixed(const std::string& path) {
  auto under = open_tcp(path);
  return {prefix_store(under.a, "x/"), prefix_store(under.b, "x/")};
}

const Kind kKinds[] = {
    {"memory", open_memory, false, false},
    {"file", open_file, true, true},
    {"tcp", open_tcp, true, false},
    {"prefixed", open_prefixed, true, false},
};

class Stores : public ::testing::TestWithParam<Kind> {
 protected:
  TemporaryPath place_;
  Pair pair_ = GetParam().open(place_.path());
};
INSTANTIATE_TEST_SUITE_P(All, Stores, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Stores, ValueIsSeenByTheOther) {
  std::string binary("\0\xff\n, \x01", 6);
  for (const std::string& value :
       {std::string("one"), std::string(), binary, std::string(1 << 20, 'x')}) {
    pair_.a->set("key", value);
    EXPECT_EQ(pair_.b->get("key", patiently()), value);
    EXPECT_TRUE(pair_.b->has("key"));
  }
}

TEST_P(Stores, RemoveForgetsAndIsNoErrorTwice) {
  pair_.a->set("key", "value");
  pair_.b->remove("key");
  pair_.b->remove("key");
  EXPECT_FALSE(pair_.a->has("key"));
  EXPECT_EQ(pair_.a->add("key", 5), 5) << "a removed key counts from 0";
}

TEST_P(Stores, GetWaitsForTheOthersSet) {
  std::thread setter([&] { pair_.b->set("late", "there"); });
  EXPECT_EQ(pair_.a->get("late", patiently()), "there");
  setter.join();
}

TEST_P(Stores, ManyWaitersAreAllWoken) {
  constexpr int kWaiters = 12;
  std::atomic<int> right{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&, i] {
      Store& store = i % 2 ? *pair_.a : *pair_.b;
      right += store.get(i % 3 ? "one" : "two", patiently()) == (i % 3 ? "1" : "2");
    });
  }
  pair_.a->set("one", "1");
  pair_.b->add("two", 2);
  for (auto& waiter : waiters) waiter.join();
  EXPECT_EQ(right, kWaiters);
}

TEST_P(Stores, MissingKeyIsNamedAtTheDeadline) {
  auto began = Clock::now();
  Error error = error_of([&] { pair_.b->get("who?", within(0.05)); });
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(50));
  EXPECT_EQ(error.code, ErrorCode::timeout);
  EXPECT_TRUE(contains(error.cause, "who?\"")) << error.cause;
  EXPECT_TRUE(contains(error.cause, " within ")) << error.cause;
  EXPECT_EQ(error_of([&] { pair_.a->get("who?", within(0)); }).code, ErrorCode::timeout);
}

TEST_P(Stores, AddIsAtomicOverThreads) {
  constexpr int kThreads = 8, kRounds = 40;
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, kThreads * kRounds + 1> seen{};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Store& store = t % 2 ? *pair_.a : *pair_.b;
      for (int i = 0; i < kRounds; ++i) ++seen[store.add("n", 1)];
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 1; i <= kThreads * kRounds; ++i) ASSERT_EQ(seen[i], 1) << "value " << i;
}

TEST_P(Stores, CountersRefuseWhatIsNoNumber) {
  pair_.a->set("text", "seven");
  EXPECT_TRUE(contains(error_of([&] { pair_.b->add("text", 1); }).cause, "text\" is not a number"));
  pair_.a->set("high", "9223372036854775807");
  EXPECT_TRUE(contains(error_of([&] { pair_.b->add("high", 1); }).cause, "overflow"));
  EXPECT_EQ(pair_.b->add("high", -7), 9223372036854775800);
}

TEST_P(Stores, TooLargeIsRefusedAndTheStoreGoesOn) {
  if (!GetParam().bounded) GTEST_SKIP() << "memory is the caller's own";
  for (auto& [key, value] : {std::pair{std::string(1025, 'k'), std::string("v")},
                             std::pair{std::string("k"), std::string((1 << 20) + 1, 'v')}}) {
    EXPECT_EQ(error_of([&] { pair_.a->set(key, value); }).code, ErrorCode::invalid_argument);
  }
  pair_.a->set("k", "v");
  EXPECT_EQ(pair_.b->get("k", patiently()), "v");
}

TEST(PrefixStore, KeepsGroupsApart) {
  auto root = memory_store();
  auto one = prefix_store(root, "one/"), two = prefix_store(root, "two/");
  one->set("key", "1");
  EXPECT_FALSE(two->has("key"));
  EXPECT_EQ(root->get("one/key", patiently()), "1");
}

// ---- processes ---------------------------------------------------------------------------------

struct Shared {
  const char* name;
  std::shared_ptr<Store> (*open)(const std::string& path, int rank, int port);
};
std::shared_ptr<Store> reach_file(const std::string& path, int, int) { return file_store(path); }
std::shared_ptr<Store> reach_tcp(const std::string&, int rank, int port) {
  return tcp_store("127.0.0.1", port, rank == 0, patiently());
}
class SharedStores : public ::testing::TestWithParam<Shared> {};
INSTANTIATE_TEST_SUITE_P(All, SharedStores,
                         ::testing::Values(Shared{"file", reach_file}, Shared{"tcp", reach_tcp}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SharedStores, ProcessesCountTogether) {
  constexpr int kRanks = 5, kRounds = 60;
  TemporaryPath place;
  int port = free_port();
  Processes ranks(kRanks, [&](int rank, const Reporter& reporter) {
    auto store = GetParam().open(place.path(), rank, port);
    for (int i = 0; i < kRounds; ++i) store->add("n", 1);
    store->set("done/" + std::to_string(rank), "1");
    for (int other = 0; other < kRanks; ++other)
      store->get("done/" + std::to_string(other), patiently());
    reporter.say(store->get("n", patiently()));
    reporter.await_go();  // the server ends last
  });
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(ranks.line(rank), std::to_string(kRanks * kRounds));
  ranks.go_all();
}

TEST_P(SharedStores, SurviveTheDeathOfAWriter) {
  TemporaryPath place;
  int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    auto store = GetParam().open(place.path(), rank, port);
    std::string large(200000, 'x');
    for (int i = 0; rank == 1; ++i) {
      store->set("large", large);
      if (i == 20) reporter.say("writing");
    }
    reporter.await_go();
    reporter.say(std::to_string(store->get("large", patiently()).size()));
    store->set("after", "well");
    reporter.say(store->get("after", patiently()));
  });
  EXPECT_EQ(ranks.line(1), "writing");
  ranks.signal(1, SIGKILL);
  ranks.go(0);
  EXPECT_EQ(ranks.line(0), "200000") << "a value is there as a whole";
  EXPECT_EQ(ranks.line(0), "well");
}

TEST_P(SharedStores, StoreOpenedBeforeAForkWorksInTheChild) {
  TemporaryPath place;
  int port = free_port();
  Processes parent(1, [&](int, const Reporter& reporter) {
    auto store = GetParam().open(place.path(), 0, port);
    store->set("from", "parent");
    pid_t child = fork();
    if (child == 0) {
      store->set("answer", store->get("from", patiently()) + " and child");
      _exit(0);
    }
    reporter.say(store->get("answer", patiently()));
    waitpid(child, nullptr, 0);
    store->set("still", "here");
    reporter.say(store->get("still", patiently()));
  });
  EXPECT_EQ(parent.line(0), "parent and child");
  EXPECT_EQ(parent.line(0), "here");
}

}  // namespace
}  // namespace ringwood

// What a meeting costs the store, and what a rank says while it waits for the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/patience.h"
#include "tests/support/told_store.h"
#include "transports/base/log.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/store_polls.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using Values = std::vector<std::string>;

Options patient() {
  Options options;
  options.init_timeout = kPatience;
  return options;
}

// Meets and exchanges addresses, as ranks do.
struct Met {
  Values introductions, addresses;
  std::string announcement = "announced";
};
Met meet(Bootstrap& bootstrap, const std::string& mine) {
  Met met;
  met.introductions = bootstrap.meet([&](const std::string& announced) { return mine + announced; },
                                     met.announcement);
  met.addresses = bootstrap.exchange("addr", [&] { return "at " + mine; });
  return met;
}

using StoreOf = std::function<std::shared_ptr<Store>(int rank)>;
using ValueOf = std::function<std::string(int rank)>;

// By rank. Rank 0 removes the keys when all have read them.
std::vector<Met> meet_all(int n, const StoreOf& store, const ValueOf& value) {
  std::vector<Met> met(static_cast<size_t>(n));
  std::barrier all_have_met(n);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < n; ++rank)
    ranks.emplace_back([&, rank] {
      const Options options = patient();
      Bootstrap bootstrap(store(rank), rank, n, options);
      met[static_cast<size_t>(rank)] = meet(bootstrap, value(rank));
      all_have_met.arrive_and_wait();
      bootstrap.remove_keys();
    });
  for (std::thread& rank : ranks) rank.join();
  return met;
}

void expect_all_read(const std::vector<Met>& met, const ValueOf& value) {
  Values introductions, addresses;
  for (size_t rank = 0; rank < met.size(); ++rank) {
    introductions.push_back(value(static_cast<int>(rank)) + "announced");
    addresses.push_back("at " + value(static_cast<int>(rank)));
  }
  for (const Met& one : met) {
    EXPECT_EQ(one.introductions, introductions);
    EXPECT_EQ(one.addresses, addresses);
  }
}

// Of the store, by rank; one that is made again while a rank waits counts once.
std::vector<size_t> calls_of(int n) {
  const auto store = memory_store();
  std::vector<std::set<std::string>> calls(static_cast<size_t>(n));
  const auto value = [](int rank) { return std::to_string(rank); };
  expect_all_read(meet_all(
                      n,
                      [&](int rank) {
                        return std::make_shared<ToldStore>(
                            store, [&calls, rank](const std::string& call) {
                              if (!call.starts_with("poll "))
                                calls[static_cast<size_t>(rank)].insert(call);
                            });
                      },
                      value),
                  value);
  std::vector<size_t> counts;
  for (const auto& of_a_rank : calls) counts.push_back(of_a_rank.size());
  return counts;
}

TEST(Meeting, CostsTheStoreAsManyCallsOfARankWhateverTheirNumber) {
  const std::vector<size_t> few = calls_of(3), many = calls_of(24);
  for (size_t rank = 1; rank < many.size(); ++rank)
    EXPECT_EQ(many[rank], few[1]) << "rank " << rank;
  EXPECT_LE(many[0], 10u * 24);
}

TEST(Meeting, OfRanksThatSayMuchMeetsInAStoreWithSmallValues) {
  constexpr int kRanks = 6;
  const auto store = tcp_store("127.0.0.1", 0, true, patiently());
  const auto value = [](int rank) {
    return std::string(size_t{300} << 10, static_cast<char>('a' + rank));
  };
  expect_all_read(meet_all(
                      kRanks, [&](int) { return store; }, value),
                  value);
}

// ---- while it waits ----------------------------------------------------------------------------

constexpr std::chrono::milliseconds kOften{20};
constexpr std::chrono::hours kNever{24};

std::vector<LoggedLine> reminders() {
  std::vector<LoggedLine> lines = last_logged();
  std::erase_if(lines, [](const LoggedLine& line) {
    return line.text.find("start: has waited") == std::string::npos;
  });
  return lines;
}

bool comes(const std::function<bool()>& condition) {
  const Deadline deadline = patiently();
  while (!condition() && !deadline.passed()) std::this_thread::sleep_for(kOften);
  return condition();
}

// A rank in a thread of its own. `gets`: how often it has asked for its welcome.
class Waiting {
 public:
  template <class... RemindEvery>
  Waiting(const std::shared_ptr<Store>& store, int rank, int size, RemindEvery... remind_every)
      : thread_([this, store, rank, size, remind_every...] {
          auto told = std::make_shared<ToldStore>(store, [this](const std::string& call) {
            if (call.starts_with("get welcome/")) ++gets;
          });
          const Options options = patient();
          Bootstrap bootstrap(told, rank, size, options, remind_every...);
          met = meet(bootstrap, std::to_string(rank));
        }) {}
  ~Waiting() { thread_.join(); }

  std::atomic<int> gets{0};
  Met met;

 private:
  std::thread thread_;
};

class Reminders : public ::testing::Test {
 protected:
  Reminders() { log_set_level(LogLevel::error); }
  ~Reminders() override { log_set_level(LogLevel::warn); }

  const Clock::time_point began_ = Clock::now();
  // Of this test, oldest first.
  std::vector<LoggedLine> lines() const {
    std::vector<LoggedLine> all = reminders();
    std::erase_if(all, [this](const LoggedLine& line) { return line.at < began_; });
    return all;
  }
  bool said(const std::string& what) const {
    return std::ranges::any_of(
        lines(), [&](const LoggedLine& line) { return line.text.find(what) != line.text.npos; });
  }
};

TEST_F(Reminders, RankZeroSaysWhoIsMissingOnceInAPeriod) {
  const auto store = memory_store();
  const Waiting root(store, 0, 3, kOften);
  EXPECT_TRUE(
      comes([&] { return lines().size() >= 3 && said("2 of 3 ranks: ranks 1, 2; gives"); }));
  const Waiting first(store, 1, 3, kNever);
  EXPECT_TRUE(comes([&] { return said("1 of 3 ranks: rank 2; gives"); }));
  const std::vector<LoggedLine> all = lines();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].at - all[i - 1].at, kOften);
  const Waiting second(store, 2, 3, kNever);
}

TEST_F(Reminders, WithoutRankZeroTheFirstOfTheOthersSaysIt) {
  const auto store = memory_store();
  const Waiting second(store, 2, 4, kOften);
  EXPECT_TRUE(comes([&] { return said("3 of 4 ranks: ranks 0, 1, 3; gives"); }));
  const Waiting first(store, 1, 4, kOften);
  EXPECT_TRUE(comes([&] { return first.gets > 4 && said("2 of 4 ranks: ranks 0, 3; gives"); }));
  const std::vector<LoggedLine> all = lines();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].at - all[i - 1].at, kOften);
  const Waiting third(store, 3, 4, kNever);
  const Waiting root(store, 0, 4, kNever);
}

TEST_F(Reminders, AreNoneWithinAMinute) {
  const auto store = memory_store();
  {
    const Waiting first(store, 1, 2);
    EXPECT_TRUE(comes([&] { return first.gets > 0; }));
    const Waiting root(store, 0, 2);
  }
  // Of each, and none unless this test is delayed.
  EXPECT_LE(lines().size(), 2u * ((Clock::now() - began_) / std::chrono::minutes(1)));
}

TEST(PollPause, IsAnEighthOfTheWaitWithinItsBounds) {
  using std::chrono::milliseconds;
  EXPECT_EQ(poll_pause(Duration::zero()), milliseconds(1));
  EXPECT_EQ(poll_pause(milliseconds(80)), milliseconds(10));
  EXPECT_EQ(poll_pause(std::chrono::hours(1)), milliseconds(250));
  // A second of waiting.
  int looks = 0;
  for (Duration waited{}; waited < std::chrono::seconds(1); waited += poll_pause(waited)) ++looks;
  EXPECT_LT(looks, 60);
}

TEST(PollPause, EndsWithADeadlineThatEndsEarly) {
  std::atomic<bool> over{false};
  std::thread sleeper([&] { sleep_within(std::chrono::hours(24), patiently().unless(over)); });
  over = true;
  sleeper.join();  // else not for a day
}

}  // namespace
}  // namespace ringwood

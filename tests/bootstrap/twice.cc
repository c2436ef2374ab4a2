// Two processes that were started as one rank: both hear of it, and so does every rank that waits.
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/told_store.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

void meet(std::shared_ptr<Store> store, int rank, int size, std::chrono::milliseconds time) {
  Options options;
  options.init_timeout = time;
  make_mesh(std::move(store), rank, size, options, {});
}

void meet_in_file(const std::string& path, const ToldStore::Tell& tell, int rank, int size,
                  std::chrono::milliseconds time) {
  meet(std::make_shared<ToldStore>(file_store(path), tell), rank, size, time);
}

// Processes of these ranks; with go() each comes to the store.
Processes start_in_turn(const std::string& path, const std::vector<int>& ranks, int size,
                        std::chrono::milliseconds time) {
  return Processes(static_cast<int>(ranks.size()), [=](int number, const Reporter& reporter) {
    reporter.await_go();
    const int rank = ranks[static_cast<size_t>(number)];
    bool called = false;
    const auto tell = [&](const std::string& call) {
      // Then its hello is there.
      if (rank != 0 && !call.starts_with("set hello/") && !std::exchange(called, true))
        reporter.say("called");
    };
    meet_in_file(path, tell, rank, size, time);
  });
}

// Two of rank 1. The first does not tell the other before it is let go once more. The other says
// when its time is over: then it looks at the list for the second time after it has asked for its
// reply.
Processes start_the_second_in_a_hurry(const std::string& path, std::chrono::milliseconds time) {
  return Processes(2, [=](int number, const Reporter& reporter) {
    reporter.await_go();
    bool called = false;
    int looks = 0;
    const auto tell = [&](const std::string& call) {
      if (!call.starts_with("set hello/") && !std::exchange(called, true)) reporter.say("called");
      if (number == 0 && call.starts_with("set welcome/")) {
        reporter.say("tells");
        reporter.await_go();
      }
      looks = call == "poll arrivals" ? looks + 1 : 0;
      if (number == 1 && looks == 2) reporter.say("over");
    };
    meet_in_file(path, tell, 1, 2, time);
  });
}

std::string name_of(const Processes& all, int number) {
  return "process " + std::to_string(all.pid(number)) + " on ";
}

// The third rank is missing, as it is when one of three has a wrong number.
TEST(RankTwice, IsHeardByBothAndByRank0) {
  for (const std::vector<int>& order : {std::vector{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
    TemporaryPath place;
    Processes all = start_in_turn(place.path(), order, 3, kPatience);
    for (int number : {0, 1, 2}) {
      all.go(number);
      if (order[static_cast<size_t>(number)] == 0) continue;
      EXPECT_EQ(all.line(number), "called");
    }
    for (int number : {0, 1, 2}) {
      const std::string line = all.line(number);
      EXPECT_PRED2(contains, line, "rank 1 exists twice: process ");
      for (int named : {0, 1, 2})
        EXPECT_EQ(contains(line, name_of(all, named)), order[static_cast<size_t>(named)] == 1)
            << line;
    }
  }
}

TEST(RankTwice, IsHeardByBothIfRank0NeverComes) {
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(300), [](auto limit) {
    TemporaryPath place;
    Processes all = start_in_turn(place.path(), {1, 1}, 2, limit);
    for (int number : {0, 1}) {
      all.go(number);
      if (all.line(number) != "called") return false;
    }
    const std::string first = all.line(0), second = all.line(1);
    return contains(first, name_of(all, 1)) && contains(first, "rank 1 exists twice") &&
           contains(second, name_of(all, 0)) && contains(second, "rank 1 exists twice");
  }));
}

// It hears of the other a moment after its own time.
TEST(RankTwice, IsHeardByTheSecondIfTheFirstIsSlowToTellIt) {
  EXPECT_TRUE(with_growing_limit(std::chrono::milliseconds(300), [](auto limit) {
    TemporaryPath place;
    Processes all = start_the_second_in_a_hurry(place.path(), limit);
    for (int number : {0, 1}) {
      all.go(number);
      if (all.line(number) != "called") return false;
    }
    if (all.line(0) != "tells" || all.line(1) != "over") return false;
    all.go(0);
    for (int number : {0, 1}) {
      const std::string line = all.line(number);
      if (!contains(line, "rank 1 exists twice") || !contains(line, name_of(all, 1 - number)))
        return false;
    }
    return true;
  }));
}

// The first one's hello is written over the second one's.
TEST(RankTwice, IsHeardInWhateverOrderTheyWrite) {
  const auto store = memory_store();
  std::latch writes(1), waits(1);
  const auto first = std::make_shared<ToldStore>(store, [&](const std::string& call) {
    if (call != "set hello/1") return;
    writes.count_down();
    waits.wait();
  });
  const auto second = std::make_shared<ToldStore>(store, [&](const std::string& call) {
    if (call.starts_with("get welcome/")) waits.count_down();
  });
  std::array<Error, 3> errors;
  std::thread one([&] { errors[1] = error_of([&] { meet(first, 1, 3, kPatience); }); });
  writes.wait();
  std::thread two([&] { errors[2] = error_of([&] { meet(second, 1, 3, kPatience); }); });
  errors[0] = error_of([&] { meet(store, 0, 3, kPatience); });
  one.join();
  two.join();
  for (const Error& error : errors) {
    EXPECT_PRED2(contains, error.cause, "rank 1 exists twice: process ");
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(error.rank, 1);
  }
}

TEST(RankTwice, WhoComesAfterOneThatWasKilledIsAlone) {
  TemporaryPath place;
  {
    Processes killed = start_in_turn(place.path(), {1}, 2, kPatience);
    killed.go(0);
    EXPECT_EQ(killed.line(0), "called");
  }
  Processes all(2, [&](int rank, const Reporter& reporter) {
    meet(file_store(place.path()), rank, 2, kPatience);
    reporter.say("met");
    reporter.await_go();
  });
  for (int rank : {0, 1}) EXPECT_EQ(all.line(rank), "met");
}

}  // namespace
}  // namespace ringwood

// A job over a store in which a killed one has left its entries, at any moment of its start.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/processes.h"
#include "tests/support/told_store.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

void meet(std::shared_ptr<Store> store, int rank, int size, const Reporter& reporter) {
  Options options;
  options.init_timeout = kPatience;
  auto mesh = make_mesh(std::move(store), rank, size, options, {});
  reporter.say("met");
  reporter.await_go();
}

// False: the victim does not call its store so often.
bool kill_a_job(const std::string& path, int size, int victim, int call) {
  Processes ranks(size, [&](int rank, const Reporter& reporter) {
    int calls = 0;
    auto dying = std::make_shared<ToldStore>(file_store(path), [&](const std::string& made) {
      if (rank == victim && !made.starts_with("poll ") && ++calls == call) raise(SIGKILL);
    });
    meet(dying, rank, size, reporter);
  });
  return ranks.line(victim) != "met";  // the others are killed where they are
}

TEST(Leftovers, OfAJobKilledAtAnyCallOfItsStoreAreMetByNobody) {
  for (int victim : {0, 1}) {
    for (int call = 1;; ++call) {
      TemporaryPath place;
      if (!kill_a_job(place.path(), 2, victim, call)) break;
      const int size = 2 + call % 2;  // another job may be larger
      Processes ranks(size, [&](int rank, const Reporter& reporter) {
        meet(file_store(place.path()), rank, size, reporter);
      });
      for (int rank = 0; rank < size; ++rank)
        ASSERT_EQ(ranks.line(rank), "met") << "rank " << victim << " killed at call " << call;
      ranks.go_all();
    }
  }
}

TEST(Leftovers, OfARankThatStartedTwiceAreMetByNobody) {
  for (int late : {0, 1}) {
    TemporaryPath place;
    // The other had met no rank yet.
    Processes killed(2, [&](int rank, const Reporter& reporter) {
      if (rank == late) return reporter.await_go();
      auto store = std::make_shared<ToldStore>(file_store(place.path()),
                                               [&](const std::string&) { reporter.say("called"); });
      meet(store, rank, 2, reporter);
    });
    EXPECT_EQ(killed.line(1 - late), "called");
    while (access(place.path().c_str(), F_OK) != 0) poll(nullptr, 0, 1);
    killed.signal(1 - late, SIGKILL);
    Processes ranks(2, [&](int rank, const Reporter& reporter) {
      meet(file_store(place.path()), rank, 2, reporter);
    });
    for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "met");
    ranks.go_all();
  }
}

// And then the file goes with the last user.
TEST(Leftovers, OfAJobThatEndedAreNone) {
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    meet(file_store(place.path()), rank, 3, reporter);
    reporter.say("left");
  });
  for (int rank : {0, 1, 2}) EXPECT_EQ(ranks.line(rank), "met");
  ranks.go_all();
  for (int rank : {0, 1, 2}) EXPECT_EQ(ranks.line(rank), "left");
  EXPECT_NE(access(place.path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace ringwood

// A tcp_store whose server is gone, or does not answer: no call outlasts its deadline by more than
// a few seconds, and cleaning up waits for nothing.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/told_store.h"
#include "transports/base/options.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Less than the minute that a call without a deadline has, and several times what is needed.
constexpr std::chrono::seconds kSoon{40 * kSlower};

// If each cost as little as a second, a test would not wait for so many.
constexpr int kManyKeys = 1000;

void remove_many(Store& store) {
  for (int i = 0; i < kManyKeys; ++i) store.remove("key/" + std::to_string(i));
}

TEST(LostStore, CleaningUpAfterItsEndIsNoErrorAndWaitsForNothing) {
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    auto store = tcp_store("127.0.0.1", port, rank == 0, patiently());
    reporter.say("there");
    reporter.await_go();
    remove_many(*store);
    reporter.say("cleaned up");
  });
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "there");
  ranks.signal(0, SIGKILL);
  ranks.wait(0);
  ranks.go(1);
  EXPECT_EQ(ranks.line(1, Deadline::after(kSoon)), "cleaned up");
}

TEST(LostStore, CleaningUpWaitsForASilentServerOnce) {
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    auto store = tcp_store("127.0.0.1", port, rank == 0, patiently());
    reporter.say("there");
    reporter.await_go();
    remove_many(*store);
    reporter.say("cleaned up");
    reporter.await_go();
    store->set("key/0", "value", patiently());
    store->remove("key/0");
    reporter.say(store->has("key/0") ? "still there" : "removed again");
  });
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "there");
  ranks.stop(0);
  ranks.go(1);
  EXPECT_EQ(ranks.line(1, Deadline::after(kSoon)), "cleaned up");
  ranks.signal(0, SIGCONT);
  ranks.go(1);
  EXPECT_EQ(ranks.line(1), "removed again") << "the server was reached in between";
}

TEST(LostStore, CallsToASilentServerEndAtTheirDeadline) {
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    auto store = tcp_store("127.0.0.1", port, rank == 0, patiently());
    reporter.say("there");
    reporter.await_go();
    const Error set = error_of([&] { store->set("key", "value", within(0.1)); });
    const Error has = error_of([&] { store->has("key", within(0.1)); });
    const Error add = error_of([&] { store->add("n", 1, within(0.1)); });
    for (const Error& error : {set, has, add})
      reporter.say(contains(error.cause, "the store at ") ? "named" : error.cause);
  });
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "there");
  ranks.stop(0);
  ranks.go(1);
  const Deadline soon = Deadline::after(kSoon);
  for (int call = 0; call < 3; ++call) EXPECT_EQ(ranks.line(1, soon), "named");
}

// Ranks 1 and 2 wait for rank 0, which serves the store and never comes to the meeting.
class Waiting {
 public:
  explicit Waiting(std::chrono::milliseconds limit)
      : ranks_(3, [this, limit](int rank, const Reporter& reporter) {
          auto store = tcp_store("127.0.0.1", port_, rank == 0, patiently());
          if (rank == 0) {
            reporter.say("there");
            return reporter.await_go();
          }
          // It asks again as long as there is no reply.
          bool said = false;
          store = std::make_shared<ToldStore>(store, [&](const std::string& call) {
            if (call.starts_with("get welcome/") && !std::exchange(said, true))
              reporter.say("there");
          });
          Options options;
          options.init_timeout = limit;
          make_mesh(store, rank, 3, options, {});
        }) {
    for (int rank : {0, 1, 2}) EXPECT_EQ(ranks_.line(rank), "there");
  }
  Processes& ranks() { return ranks_; }

 private:
  const int port_ = free_port();
  Processes ranks_;
};

TEST(LostStore, RankZeroThatIsKilledEndsTheMeetingAtOnce) {
  Waiting waiting(kPatience);
  waiting.ranks().signal(0, SIGKILL);
  const Deadline soon = Deadline::after(kSoon);
  for (int rank : {1, 2}) {
    const std::string line = waiting.ranks().line(rank, soon);
    EXPECT_PRED2(contains, line, "exception: ");
    EXPECT_PRED2(contains, line, "did rank 0 end?");
  }
}

// Either it is found missing, or the store is said not to reply.
TEST(LostStore, RankZeroThatIsSilentEndsTheMeetingAtItsDeadline) {
  Waiting waiting(std::chrono::seconds(2));
  waiting.ranks().stop(0);
  const Deadline soon = Deadline::after(kSoon);
  for (int rank : {1, 2}) EXPECT_PRED2(contains, waiting.ranks().line(rank, soon), "exception: ");
}

}  // namespace
}  // namespace ringwood

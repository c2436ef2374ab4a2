// Ranks of another job, of an earlier attempt, and of another user that come to the store of a job:
// they are refused while the job still waits for its own, both sides say why, and the job starts.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bootstrap/free_port.h"
#include "tests/bootstrap/strangers.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/told_store.h"
#include "transports/base/log.h"
#include "transports/base/options.h"
#include "transports/bootstrap/bootstrap.h"
#include "transports/bootstrap/store.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// Meets as rank `rank` of `size` and says "met", or the error's message.
std::string meet(std::shared_ptr<Store> store, int rank, int size, Options options) {
  options.init_timeout = kPatience;
  std::string announcement = "announced";
  Bootstrap bootstrap(std::move(store), rank, size, options);
  try {
    bootstrap.meet([&](const std::string&) { return "rank " + std::to_string(rank); },
                   announcement);
    return "met";
  } catch (const Error& error) {
    bootstrap.give_up();
    return error.message();
  }
}

Options of_job(const std::string& id) {
  Options options;
  options.job_id = id;
  return options;
}

// A rank in a thread.
class Rank {
 public:
  Rank(std::shared_ptr<Store> store, int rank, int size, const Options& options)
      : thread_([this, store = std::move(store), rank, size, options] {
          said_ = meet(store, rank, size, options);
        }) {}
  ~Rank() {
    if (thread_.joinable()) thread_.join();
  }
  std::string said() {
    thread_.join();
    return said_;
  }

 private:
  std::string said_;
  std::thread thread_;
};

// Returns once a rank of `store` has begun to wait for its welcome.
class Waiting {
 public:
  explicit Waiting(std::shared_ptr<Store> store)
      : store_(std::make_shared<ToldStore>(std::move(store), [this](const std::string& call) {
          if (call.starts_with("get welcome/") && !std::exchange(said_, true)) waits_.count_down();
        })) {}
  std::shared_ptr<Store> store() const { return store_; }
  void await() { waits_.wait(); }

 private:
  bool said_ = false;
  std::latch waits_{1};
  std::shared_ptr<Store> store_;
};

struct Visitor {
  const char* name;
  std::string job;
  int rank, size;
  const char* hears;
};
const Visitor kVisitors[] = {
    {"AnotherJob", "other", 1, 2,
     "rank 0 refused this rank: it belongs to job own (RINGWOOD_JOB_ID), this side to job other"},
    {"OfAnotherSize", "", 1, 4, "rank 0 refused this rank: its group has 2 ranks, this side's 4"},
    {"OfARankThatIsNotExpected", "", 3, 4, "its group has 2 ranks, this side's 4"},
};

class OtherJobs : public ::testing::TestWithParam<Visitor> {};
INSTANTIATE_TEST_SUITE_P(All, OtherJobs, ::testing::ValuesIn(kVisitors),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(OtherJobs, AreRefusedWhileTheJobWaitsForItsOwn) {
  const auto store = memory_store();
  Rank root(store, 0, 2, of_job("own"));
  Rank stranger(store, GetParam().rank, GetParam().size, of_job(GetParam().job));
  EXPECT_PRED2(contains, stranger.said(), GetParam().hears);
  Rank own(store, 1, 2, of_job("own"));
  EXPECT_EQ(own.said(), "met");
  EXPECT_EQ(root.said(), "met");
}

// Its hello stands where that of the job's own rank stood.
TEST_P(OtherJobs, CannotTakeThePlaceOfOneThatWaits) {
  const auto store = memory_store();
  Waiting own_waits(store), stranger_waits(store);
  Rank own(own_waits.store(), 1, 2, of_job("own"));
  own_waits.await();
  Rank stranger(stranger_waits.store(), GetParam().rank, GetParam().size, of_job(GetParam().job));
  stranger_waits.await();
  Rank root(store, 0, 2, of_job("own"));
  EXPECT_PRED2(contains, stranger.said(), GetParam().hears);
  EXPECT_EQ(own.said(), "met");
  EXPECT_EQ(root.said(), "met");
}

TEST(OtherJobsInTheStore, ARankWithoutAnIdBelongsToAny) {
  const auto store = memory_store();
  Rank root(store, 0, 3, of_job("own"));
  Rank own(store, 1, 3, of_job("own"));
  Rank plain(store, 2, 3, Options());
  for (Rank* rank : {&root, &own, &plain}) EXPECT_EQ(rank->said(), "met");
}

// It has said hello before.
TEST(OtherJobsInTheStore, AreNamedByTheRootThatGivesUp) {
  const auto store = memory_store();
  Waiting stranger_waits(store);
  Rank stranger(stranger_waits.store(), 1, 2, of_job("other"));
  stranger_waits.await();
  Options hurried = of_job("own");
  hurried.init_timeout = std::chrono::milliseconds(300);
  Bootstrap root(store, 0, 2, hurried);
  std::string announcement;
  const Error error =
      error_of([&] { root.meet([](const std::string&) { return ""; }, announcement); });
  EXPECT_PRED2(contains, error.cause, "missing rank 1");
  EXPECT_PRED2(contains, error.cause, "last refused: rank 1 on ");
  EXPECT_PRED2(contains, error.cause, "it belongs to job other (RINGWOOD_JOB_ID)");
  EXPECT_PRED2(contains, stranger.said(), "rank 0 refused this rank");
}

// ---- processes, each with the variables of its launcher ----------------------------------------

struct Member {
  int rank;
  const char* restart_count;
  uid_t user = 0;
  bool in_container = false;  // with a mount namespace of its own
};

// Says what meet() says at the store that open() returns.
Processes start(const std::vector<Member>& members, int size,
                const std::function<std::shared_ptr<Store>(const Member&)>& open) {
  return Processes(static_cast<int>(members.size()), [=](int i, const Reporter& reporter) {
    const Member& me = members[static_cast<size_t>(i)];
    log_configure(LogLevel::warn, me.rank);
    setenv("TORCHELASTIC_RUN_ID", "run", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", me.restart_count, 1);
    setenv("GROUP_RANK", "0", 1);
    if (me.in_container && unshare(CLONE_NEWNS) != 0) throw std::runtime_error("unshare");
    if (me.user != 0 && setuid(me.user) != 0) throw std::runtime_error("setuid");
    reporter.await_go();
    reporter.say(meet(open(me), me.rank, size, Options()));
  });
}

TEST(EarlierAttempt, RankIsRefusedAndBothSidesSayWhy) {
  TemporaryPath place;
  Processes ranks = start({{0, "1"}, {1, "0"}, {1, "1"}}, 2,
                          [&](const Member&) { return file_store(place.path()); });
  ranks.go(0);
  ranks.go(1);
  EXPECT_PRED2(contains, ranks.line(1),
               "rank 0 refused this rank: it is of attempt 1 of the job, this side of attempt 0");
  EXPECT_TRUE(ranks.log_shows(0, "it is of attempt 0 of the job, this side of attempt 1"));
  ranks.go(2);
  for (int rank : {0, 2}) EXPECT_EQ(ranks.line(rank), "met");
}

TEST(EarlierAttempt, RootEndsAndLeavesTheLaterOneToItsOwn) {
  TemporaryPath place;
  Processes ranks = start({{0, "0"}, {0, "1"}, {1, "1"}}, 2,
                          [&](const Member&) { return file_store(place.path()); });
  ranks.go(0);
  ranks.go(2);
  EXPECT_PRED2(contains, ranks.line(0), "this rank 0 is left over from an earlier attempt");
  ranks.go(1);
  for (int rank : {1, 2}) EXPECT_EQ(ranks.line(rank), "met");
}

TEST(EarlierAttempt, IsNotEndedByWhatAKilledLaterOneLeft) {
  TemporaryPath place;
  const auto told = [&](const Member& me, const char* call) {
    return std::make_shared<ToldStore>(file_store(place.path()), [=](const std::string& made) {
      if (made.starts_with(call))
        log(LogLevel::warn, "test", fmt::format("rank {}: {}", me.rank, call));
    });
  };
  {
    Processes killed =
        start({{1, "1"}}, 2, [&](const Member& me) { return told(me, "get welcome/"); });
    killed.go(0);
    ASSERT_TRUE(killed.log_shows(0, "rank 1: get welcome/"));
  }
  Processes ranks =
      start({{0, "0"}, {1, "0"}}, 2, [&](const Member& me) { return told(me, "set welcome/1"); });
  ranks.go(0);
  ASSERT_TRUE(ranks.log_shows(0, "rank 0: set welcome/1"));
  ranks.go(1);
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "met");
}

// ---- at the port of the store ------------------------------------------------------------------

TEST(OtherJobsAtThePort, AreRefusedAndBothSidesSayWhy) {
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    log_configure(LogLevel::warn, rank);
    reporter.await_go();
    const Options options = of_job(rank == 0 ? "own" : "other");
    try {
      const auto store = tcp_store("127.0.0.1", port, rank == 0, patiently(), options, 2 + rank);
      reporter.say("in");
      reporter.await_go();
    } catch (const Error& error) {
      reporter.say(error.cause);
    }
  });
  ranks.go(0);
  EXPECT_EQ(ranks.line(0), "in");
  // Nobody's reason is hidden by that of a scanner.
  {
    Stranger scanner(port);
    scanner.say(
        "GET / HTTP/1.1\r\nHost: somewhere.example\r\nUser-Agent: none of ours at all\r\n\r\n");
    EXPECT_TRUE(ranks.log_shows(0, "is not a Ringwood handshake"));
  }
  ranks.go(1);
  const std::string heard = ranks.line(1);
  EXPECT_PRED2(contains, heard, "cannot join the store at 127.0.0.1:");
  EXPECT_PRED2(contains, heard, "it belongs to job own (RINGWOOD_JOB_ID), this side to job other");
  EXPECT_PRED2(contains, heard, "its group has 2 ranks, this side's 3");
  EXPECT_TRUE(
      ranks.log_shows(0, "it belongs to job other (RINGWOOD_JOB_ID), this side to job own"));
}

TEST(OtherJobsAtThePort, AServerThatGotThePortOfAnotherIsNotTheStore) {
  const int port = free_port();
  const auto serve = [&](int, const Reporter& reporter) {
    const auto store = tcp_store("127.0.0.1", port, true, patiently());
    store->set("key", "value");
    reporter.say("serving");
    reporter.await_go();
  };
  auto first = std::make_unique<Processes>(1, serve);
  ASSERT_EQ(first->line(0), "serving");
  const auto store = tcp_store("127.0.0.1", port, false, patiently());
  EXPECT_EQ(store->get("key", patiently()), "value");
  first.reset();
  EXPECT_THROW(store->get("key", patiently()), Error);  // its connection is lost
  Processes second(1, serve);
  ASSERT_EQ(second.line(0), "serving");
  const Error error = error_of([&] { store->get("key", patiently()); });
  EXPECT_PRED2(contains, error.cause, "another start of the job");
}

TEST(OtherUsers, OfAHostAreRefusedAndBothSidesSayWhy) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const int port = free_port();
  Processes ranks = start({{0, "0"}, {1, "0", 65534}, {1, "0"}}, 2, [&](const Member& me) {
    return tcp_store("127.0.0.1", port, me.rank == 0, patiently());
  });
  ranks.go(0);
  ranks.go(1);
  EXPECT_PRED2(contains, ranks.line(1), "it runs as user 0 of this host, this side as user 65534");
  EXPECT_TRUE(ranks.log_shows(0, "it runs as user 65534 of this host, this side as user 0"));
  ranks.go(2);
  for (int rank : {0, 2}) EXPECT_EQ(ranks.line(rank), "met");
}

TEST(OtherUsers, InAContainerOfTheirOwnJoin) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  if (Processes one(1,
                    [](int, const Reporter& reporter) {
                      reporter.say(unshare(CLONE_NEWNS) == 0 ? "yes" : "no");
                    });
      one.line(0) != "yes")
    GTEST_SKIP() << "needs the right to make a mount namespace";
  const int port = free_port();
  Processes ranks = start({{0, "0"}, {1, "0", 65534, true}}, 2, [&](const Member& me) {
    return tcp_store("127.0.0.1", port, me.rank == 0, patiently());
  });
  ranks.go_all();
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "met");
}

}  // namespace
}  // namespace ringwood

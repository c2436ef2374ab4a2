// The control connection between processes: ranks that are killed, stopped, or end without a word.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/control/control_members.h"
#include "tests/fuzz/random.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/base/host.h"
#include "transports/control/control_messages.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// What a rank does until it is told to go: sits, inside #17, and reports every group_error as
// "code peer | message".
void sit(const std::string& path, int rank, int n, const Reporter& reporter, const Options& options,
         const std::function<void(Member&)>& meanwhile = {}) {
  log_configure(LogLevel::info, rank);
  auto store = file_store(path);
  Member member(*store, rank, n, options, patiently(), [&](const Error& error) {
    reporter.say(std::string(to_string(error.code)) + " " + std::to_string(error.peer) + " | " +
                 error.message());
  });
  member.told.set_op_status({17, true, "all_reduce"});
  store->add("joined", 1);
  while (store->get("joined", patiently()) != std::to_string(n)) poll(nullptr, 0, 1);
  reporter.say("joined");
  if (meanwhile) meanwhile(member);
  reporter.await_go();
  member.control.reset();
  reporter.say("left");
}

void expect_members(Processes& ranks, int n) {
  for (int rank = 0; rank < n; ++rank) ASSERT_EQ(ranks.line(rank), "joined") << ranks.log_of(rank);
}

struct Victim {
  int n, rank;
  int how;  // a signal, or 0: exit without a goodbye
};
class Death : public ::testing::TestWithParam<Victim> {};
INSTANTIATE_TEST_SUITE_P(All, Death,
                         ::testing::Values(Victim{2, 0, SIGKILL}, Victim{2, 1, SIGKILL},
                                           Victim{3, 0, SIGKILL}, Victim{3, 1, SIGKILL},
                                           Victim{3, 2, SIGKILL}, Victim{9, 0, SIGKILL},
                                           Victim{9, 4, SIGKILL}, Victim{9, 8, SIGKILL},
                                           Victim{3, 0, 0}, Victim{3, 1, 0}, Victim{3, 2, SIGSEGV}),
                         [](const auto& info) {
                           return "n" + std::to_string(info.param.n) + "rank" +
                                  std::to_string(info.param.rank) + "signal" +
                                  std::to_string(info.param.how);
                         });

TEST_P(Death, IsToldToEverySurvivorByName) {
  auto [n, victim, how] = GetParam();
  TemporaryPath place;
  bool exits = how == 0;
  int who = victim, size = n;
  Processes ranks(n, [&](int rank, const Reporter& reporter) {
    sit(place.path(), rank, size, reporter, {}, [&](Member&) {
      if (rank != who || !exits) return;
      reporter.await_go();
      _exit(0);
    });
  });
  expect_members(ranks, n);
  std::string pid = std::to_string(ranks.pid(victim));
  if (exits) {
    ranks.go(victim);
  } else {
    ranks.signal(victim, how);
  }
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    std::string line = ranks.line(rank);
    EXPECT_PRED2(contains, line, "peer_lost " + std::to_string(victim) + " | ");
    EXPECT_PRED2(
        contains, line,
        "rank " + std::to_string(victim) + " (" + host_name() + ", pid " + pid + ") died: ");
  }
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    ranks.go(rank);
    EXPECT_EQ(ranks.line(rank), "left") << "told once, and free to go";
  }
}

TEST(ControlFaults, AStoppedRankIsWarnedAboutAndComesBack) {
  for (int stopped : {0, 2}) {
    TemporaryPath place;
    Processes ranks(3, [&](int rank, const Reporter& reporter) {
      sit(place.path(), rank, 3, reporter, with_heartbeat(20 * kSlower));
    });
    expect_members(ranks, 3);
    int watcher = stopped == 0 ? 1 : 0;
    std::string name = "rank " + std::to_string(stopped) + " (";
    ranks.stop(stopped);
    EXPECT_TRUE(ranks.log_shows(watcher, " s; stopped or starved?")) << ranks.log_of(watcher);
    EXPECT_PRED2(contains, ranks.log_of(watcher), name);
    ranks.signal(stopped, SIGCONT);
    EXPECT_TRUE(ranks.log_shows(watcher, "answers again after")) << ranks.log_of(watcher);
    for (int rank : {2, 1, 0}) {
      ranks.go(rank);
      EXPECT_EQ(ranks.line(rank), "left") << "a pause is no failure";
    }
  }
}

TEST(ControlFaults, TheStatusQueryNamesWhoDoesNotReply) {
  TemporaryPath place;
  Processes ranks(4, [&](int rank, const Reporter& reporter) {
    // 2.4 s for the replies of the others.
    sit(place.path(), rank, 4, reporter, with_heartbeat(10'000), [&](Member& member) {
      if (rank != 1) return;
      reporter.await_go();
      Error error(ErrorCode::timeout, "not finished within 5.0 s");
      error.rank = 1;
      error.sequence = 17;
      member.control->fail(error);
    });
  });
  expect_members(ranks, 4);
  ranks.stop(3);
  ranks.go(1);
  for (int rank = 0; rank < 3; ++rank) {
    std::string line = ranks.line(rank);
    EXPECT_PRED2(contains, line, "timeout 3 | ");
    EXPECT_PRED2(contains, line, "missing: rank 3 (does not answer, last heard ");
  }
}

// What it sends is no error of this group: its connection ends, as that of a rank that has died.
TEST(ControlFaults, AnErrorAboutRanksThatAreNotThereIsRefused) {
  constexpr int kSize = 3;
  Random random(25);
  for (int i = 0; i < 60; ++i) {
    auto members = sit_down(kSize, with_heartbeat(1000));
    Error error(random.from(ErrorCode::mismatch, ErrorCode::internal), "why");
    const auto rank = [&] { return random.flag() ? random.from(-1, kSize) : random.number(); };
    error.rank = rank();
    error.peer = rank();
    error.sequence = random.from(-1, 3);
    members[1]->control->fail(error);
    for (const auto& member : members) {
      ASSERT_TRUE(member->told.await_failed());
      const Error told = member->told.failed()[0];
      EXPECT_TRUE(is_of_group(told, kSize) || member == members[1]) << told.message();
    }
    const Error told = members[2]->told.failed()[0];
    if (!is_of_group(error, kSize)) {
      EXPECT_EQ(told.peer, 1) << told.message();
    }
  }
}

TEST(ControlFaults, WithoutAReplyOfTheRootTheLocalErrorStands) {
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    sit(place.path(), rank, 3, reporter, {}, [&](Member& member) {
      if (rank != 1) return;
      reporter.await_go();
      member.control->fail(Error(ErrorCode::aborted, "enough"));
    });
  });
  expect_members(ranks, 3);
  ranks.stop(0);
  auto began = Clock::now();
  ranks.go(1);
  EXPECT_EQ(ranks.line(1), "aborted -1 | enough (aborted)");
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(290));
  // The root had the report in its socket: when it runs again, the others hear of it.
  ranks.signal(0, SIGCONT);
  EXPECT_EQ(ranks.line(2), "aborted -1 | enough (aborted)");
}

// The others' links end a moment after the root's death, and may be seen first.
TEST(ControlFaults, ALostPeerIsBlamedOnTheRootThatDied) {
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    sit(place.path(), rank, 3, reporter, unhurried(), [&](Member& member) {
      if (rank != 1) return;
      reporter.await_go();
      Error error(ErrorCode::peer_lost, "it gave up");
      error.rank = 1;
      error.peer = 2;
      member.control->fail(error);
    });
  });
  expect_members(ranks, 3);
  ranks.stop(0);
  ranks.go(1);
  ranks.signal(0, SIGKILL);
  std::string line = ranks.line(1);
  EXPECT_PRED2(contains, line, "peer_lost 0 | ");
  EXPECT_PRED2(contains, ranks.line(2), "peer_lost 0 | ");
}

TEST(ControlFaults, AForkedChildDoesNotHideADeath) {
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    sit(place.path(), rank, 3, reporter, {}, [&](Member& member) {
      if (rank != 1) return;
      // As a DataLoader's worker: inherits every descriptor, and outlives its parent.
      pid_t child = fork();
      if (child != 0) return;
      prctl(PR_SET_PDEATHSIG, 0);
      member.control->fail(Error(ErrorCode::aborted, "a child has no say"));
      member.control.reset();
      reporter.say("forked");
      reporter.await_go();  // its parent's pipes are its own
      reporter.say("the child outlived it");
      _exit(0);
    });
  });
  expect_members(ranks, 3);
  EXPECT_EQ(ranks.line(1), "forked");
  ranks.signal(1, SIGKILL);
  for (int rank : {0, 2}) EXPECT_PRED2(contains, ranks.line(rank), "peer_lost 1 | ");
  ranks.go(1);
  EXPECT_EQ(ranks.line(1), "the child outlived it");
}

TEST(ControlFaults, ADeathDuringSetUpIsNamedToTheOthers) {
  TemporaryPath place;
  Processes ranks(3, [&](int rank, const Reporter& reporter) {
    auto store = file_store(place.path());
    Member member(*store, rank, 3, {}, patiently(),
                  [&](const Error& error) { reporter.say(error.message()); });
    if (rank == 2) raise(SIGKILL);
    reporter.await_go();
  });
  for (int rank : {0, 1}) EXPECT_PRED2(contains, ranks.line(rank), "rank 2");
}

}  // namespace
}  // namespace ringwood

// A change of parameters over the control connection: all ranks take part, or none; ranks that
// answer late, leave, fail or die in each phase.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <vector>

#include "tests/control/control_members.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/control/parameter_change.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using Members = std::vector<std::unique_ptr<Member>>;
using Changes = std::vector<std::string>;

void expect_changes(const Members& members, const Changes& changes) {
  for (const auto& member : members) {
    if (!member->control) continue;
    EXPECT_TRUE(member->told.await_changes(changes.size()));
    EXPECT_EQ(member->told.changes(), changes) << "rank " << member->group().rank();
    EXPECT_TRUE(member->told.failed().empty());
  }
}

class ChangeOfRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, ChangeOfRanks, ::testing::Values(2, 3, 5, 9));

TEST_P(ChangeOfRanks, AllBeginAtTheGreatestNumber) {
  const int n = GetParam();
  for (int greatest = 0; greatest < n; ++greatest) {
    auto members = sit_down(n, unhurried());
    for (int rank = 0; rank < n; ++rank)
      members[rank]->told.set_first(rank == greatest ? 1000 : 10 + rank);
    members[0]->control->propose({"slow", "words"});
    expect_changes(members, {"prepare 1 slow", "commit 1 1000"});
  }
}

TEST_P(ChangeOfRanks, ARankThatIsNotReadyChangesNothing) {
  const int n = GetParam();
  for (int rank : {0, n - 1}) {
    auto members = sit_down(n, unhurried());
    members[rank]->told.set_first(std::nullopt);
    members[0]->control->propose({"slow", "words"});
    for (auto& member : members) EXPECT_TRUE(member->told.await_changes(2));
    members[rank]->told.set_first(7);
    members[0]->control->propose({"fast", "words"});
    expect_changes(members, {"prepare 1 slow", "abandon 1", "prepare 2 fast", "commit 2 7"});
  }
}

TEST_P(ChangeOfRanks, OfSeveralThatWaitTheLastCounts) {
  const int n = GetParam();
  auto members = sit_down(n, unhurried());
  std::latch proposed(1);
  members[n - 1]->told.on_prepare([&] { proposed.wait(); });
  members[0]->control->propose({"a", "words"});
  for (int rank = 0; rank < n - 1; ++rank) EXPECT_TRUE(members[rank]->told.await_changes(1));
  for (const char* parameters : {"b", "c", "d", "e"})
    members[0]->control->propose({parameters, "words"});
  await_turn(0);
  proposed.count_down();
  expect_changes(members, {"prepare 1 a", "commit 1 0", "prepare 2 e", "commit 2 0"});
}

TEST_P(ChangeOfRanks, ChangesOneAfterTheOtherKeepTheirOrder) {
  const int n = GetParam();
  auto members = sit_down(n, unhurried());
  Changes changes;
  for (int i = 1; i <= 50; ++i) {
    for (auto& member : members) member->told.set_first(10 * i + member->group().rank());
    members[0]->control->propose({"p", "words"});
    changes.push_back(fmt::format("prepare {} p", i));
    changes.push_back(fmt::format("commit {} {}", i, 10 * i + n - 1));
    for (auto& member : members) EXPECT_TRUE(member->told.await_changes(changes.size()));
  }
  expect_changes(members, changes);
}

// The last rank answers when the root has given up. The next change is not made until it has.
TEST_P(ChangeOfRanks, AMissingAnswerChangesNothing) {
  const int n = GetParam();
  auto members = sit_down(n);
  std::latch given_up(1);
  members[n - 1]->told.on_prepare([&] { given_up.wait(); });
  members[0]->control->propose({"slow", "words"});
  Changes changes = {"prepare 1 slow", "abandon 1"};
  EXPECT_TRUE(members[0]->told.await_changes(2));
  given_up.count_down();
  expect_changes(members, changes);
  members[n - 1]->told.on_prepare(nullptr);
  // A machine may be too busy for an answer in time, but not for ever.
  const Deadline limit = patiently();
  for (int i = 2; changes.back().starts_with("abandon") && !limit.passed(); ++i) {
    members[0]->control->propose({"fast", "words"});
    ASSERT_TRUE(members[0]->told.await_changes(changes.size() + 2));
    changes = members[0]->told.changes();
    EXPECT_EQ(changes[changes.size() - 2], fmt::format("prepare {} fast", i));
    expect_changes(members, changes);
  }
  EXPECT_TRUE(changes.back().starts_with("commit")) << changes.back();
}

// It comes later than the usual heartbeat allows.
TEST(Changes, WaitLongerWhereTheHeartbeatIsLonger) {
  auto members = sit_down(2, unhurried());
  members[1]->told.on_prepare(
      [] { std::this_thread::sleep_for(Duration(ParameterChange::kPatience) * 13 / 10); });
  members[0]->control->propose({"slow", "words"});
  expect_changes(members, {"prepare 1 slow", "commit 1 0"});
}

TEST_P(ChangeOfRanks, WhoHasLeftIsNotAsked) {
  const int n = GetParam();
  if (n == 2) return;
  auto members = sit_down(n, unhurried());
  members[1]->control.reset();
  EXPECT_TRUE(members[0]->told.await_left({1}));
  members[0]->control->propose({"slow", "words"});
  expect_changes(members, {"prepare 1 slow", "commit 1 0"});
}

TEST_P(ChangeOfRanks, WhoLeavesMeanwhileIsNotWaitedFor) {
  const int n = GetParam();
  if (n == 2) return;
  auto members = sit_down(n, unhurried());
  members[1]->told.on_prepare([&] {
    members[1]->control->leave();  // by a handler: it says goodbye after its answer
  });
  members[0]->control->propose({"slow", "words"});
  for (auto& member : members) {
    if (member == members[1]) continue;
    EXPECT_TRUE(member->told.await_changes(2));
    EXPECT_EQ(member->told.changes(), Changes({"prepare 1 slow", "commit 1 0"}));
  }
}

TEST_P(ChangeOfRanks, WhenTheRootLeavesNothingChanges) {
  const int n = GetParam();
  auto members = sit_down(n, unhurried());
  std::latch left(1);
  members[n - 1]->told.on_prepare([&] { left.wait(); });
  members[0]->control->propose({"slow", "words"});
  EXPECT_TRUE(members[0]->told.await_changes(1));
  std::thread leaving([&] { members[0]->control->leave(); });
  EXPECT_TRUE(members[0]->told.await_changes(2));
  left.count_down();
  leaving.join();
  expect_changes(members, {"prepare 1 slow", "abandon 1"});
  members[0]->control->propose({"late", "words"});
  expect_changes(members, {"prepare 1 slow", "abandon 1"});
}

TEST_P(ChangeOfRanks, OnlyTheRootProposes) {
  auto members = sit_down(GetParam(), unhurried());
  members[1]->control->propose({"mine", "words"});
  members[0]->control->propose({"root's", "words"});
  expect_changes(members, {"prepare 1 root's", "commit 1 0"});
}

TEST_P(ChangeOfRanks, AnErrorEndsItWithoutACommit) {
  const int n = GetParam();
  auto members = sit_down(n, unhurried());
  std::latch failed(1);
  members[n - 1]->told.on_prepare([&] { failed.wait(); });
  members[0]->control->propose({"slow", "words"});
  EXPECT_TRUE(members[0]->told.await_changes(1));
  members[0]->control->fail(Error(ErrorCode::aborted, "enough"));
  EXPECT_TRUE(members[0]->told.await_failed());
  failed.count_down();
  for (auto& member : members) {
    EXPECT_TRUE(member->told.await_failed());
    EXPECT_EQ(member->told.failed()[0].cause, "enough");
    EXPECT_EQ(member->told.changes(), Changes({"prepare 1 slow"}));
  }
}

struct Victim {
  int n, rank;
  bool commits;  // it dies in the second phase
};
class DeathInAChange : public ::testing::TestWithParam<Victim> {};
INSTANTIATE_TEST_SUITE_P(All, DeathInAChange,
                         ::testing::Values(Victim{2, 0, false}, Victim{2, 0, true},
                                           Victim{2, 1, false}, Victim{2, 1, true},
                                           Victim{4, 0, false}, Victim{4, 0, true},
                                           Victim{4, 2, false}, Victim{4, 2, true}),
                         [](const auto& info) {
                           return fmt::format("n{}rank{}{}", info.param.n, info.param.rank,
                                              info.param.commits ? "commit" : "prepare");
                         });

TEST_P(DeathInAChange, IsToldToEverySurvivorByName) {
  const auto [n, victim, commits] = GetParam();
  TemporaryPath path;
  Processes ranks(
      n, [&, n = n, victim = victim, commits = commits](int rank, const Reporter& reporter) {
        auto store = file_store(path.path());
        Member member(*store, rank, n, unhurried(), patiently(), [&](const Error& error) {
          reporter.say(std::string(to_string(error.code)) + " " + std::to_string(error.peer));
        });
        const auto die = [] { raise(SIGKILL); };
        if (rank == victim && commits) member.told.on_commit(die);
        if (rank == victim && !commits) member.told.on_prepare(die);
        store->add("joined", 1);
        while (store->get("joined", patiently()) != std::to_string(n)) poll(nullptr, 0, 1);
        if (rank == 0) member.control->propose({"slow", "words"});
        (void)member.told.await_failed();
        reporter.await_go();
      });
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(ranks.line(rank), fmt::format("peer_lost {}", victim)) << rank;
    ranks.go(rank);
  }
}

}  // namespace
}  // namespace ringwood

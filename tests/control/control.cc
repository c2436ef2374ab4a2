// The control connection between threads: goodbyes, group errors and censuses, and peers that talk
// nonsense.
#include "transports/control/control.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <barrier>
#include <random>
#include <utility>

#include "tests/control/control_members.h"
#include "tests/support/errors.h"
#include "transports/bootstrap/sockets.h"
#include "transports/control/control_messages.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

void expect_nobody_failed(const std::vector<std::unique_ptr<Member>>& members) {
  for (const auto& member : members) {
    if (!member) continue;
    for (const Error& error : member->told.failed()) {
      ADD_FAILURE() << "rank " << member->group().rank() << " was told: " << error.message();
    }
  }
}

// Every rank was told once, and the same.
Error expect_one_group_error(const std::vector<std::unique_ptr<Member>>& members) {
  Error group_error;
  for (const auto& member : members) {
    EXPECT_TRUE(member->told.await_failed())
        << "rank " << member->group().rank() << " was told nothing";
    auto failed = member->told.failed();
    EXPECT_EQ(failed.size(), 1u);
    if (failed.empty()) continue;
    if (member->group().rank() == 0) group_error = failed[0];
    EXPECT_EQ(failed[0].message(), group_error.message());
    EXPECT_EQ(failed[0].code, group_error.code);
    EXPECT_EQ(failed[0].peer, group_error.peer);
  }
  return group_error;
}

OpStatus op_status(int64_t sequence, bool inside, const char* text) {
  return {sequence, inside, text};
}

class ControlOfRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, ControlOfRanks, ::testing::Values(2, 3, 5, 9));

// ---- leaving -----------------------------------------------------------------------------------

TEST_P(ControlOfRanks, LeavingInAnyOrderIsNoDeath) {
  int n = GetParam();
  std::mt19937 random(20261121 + n);
  for (int round = 0; round < 5; ++round) {
    auto members = sit_down(n, with_heartbeat(10));
    std::vector<int> order(n);
    for (int i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::set<int> gone;
    for (int rank : order) {
      bool root_listens = gone.count(0) == 0;
      members[rank]->control.reset();
      gone.insert(rank);
      for (int other : order) {
        if (gone.count(other) > 0 || !(root_listens || other == 0)) continue;
        EXPECT_TRUE(members[other]->told.await_left(gone)) << "rank " << other << " after " << rank;
      }
    }
    expect_nobody_failed(members);
  }
}

TEST_P(ControlOfRanks, LeavingTogetherIsNoDeath) {
  int n = GetParam();
  for (int round = 0; round < 10; ++round) {
    auto members = sit_down(n);
    std::vector<std::thread> threads;
    for (auto& member : members) threads.emplace_back([&] { member->control.reset(); });
    for (auto& thread : threads) thread.join();
    expect_nobody_failed(members);
  }
}

// On a busy machine the thread that says goodbye may have to wait for a core.
TEST_P(ControlOfRanks, LeavingIsNoDeathHoweverStarvedTheRank) {
  const int n = GetParam();
  for (int rank = n - 1; rank >= 0; rank -= n - 1) {
    auto members = sit_down(n, with_heartbeat(10));
    Told& told = members[rank]->told;
    told.starve_ms = 600;
    for (const Deadline limit = patiently(); told.starve_ms > 0 && !limit.passed();)
      poll(nullptr, 0, 1);
    members[rank]->control.reset();
    for (int other = 0; other < n; ++other) {
      if (other == rank) continue;
      EXPECT_TRUE(members[other]->told.await_left({rank})) << other;
    }
    expect_nobody_failed(members);
  }
}

TEST_P(ControlOfRanks, WithoutTheRootErrorsStayLocal) {
  int n = GetParam();
  auto members = sit_down(n, with_heartbeat(10));
  members[0]->control.reset();
  for (int rank = 1; rank < n; ++rank) EXPECT_TRUE(members[rank]->told.await_left({0}));
  Error error(ErrorCode::aborted, "enough");
  members[1]->control->fail(error);
  EXPECT_TRUE(members[1]->told.await_failed());
  EXPECT_EQ(members[1]->told.failed()[0].cause, "enough");
  for (int rank = 2; rank < n; ++rank) EXPECT_TRUE(members[rank]->told.failed().empty());
}

TEST(Control, LeavingTwiceAndFailingAfterwards) {
  auto members = sit_down(2);
  for (auto& member : members) {
    member->control->leave();
    member->control->leave();
    member->control->fail(Error(ErrorCode::aborted, "late"));
    EXPECT_TRUE(member->told.await_failed());
    EXPECT_EQ(member->told.failed()[0].cause, "late");
  }
}

TEST(Control, GroupOfOneIsItsOwnJudge) {
  Group group;
  group.identity.size = 1;
  Told told;
  auto control = make_control(group, told.handlers());
  control->fail(Error(ErrorCode::aborted, "first"));
  control->fail(Error(ErrorCode::aborted, "second"));
  control->leave();
  ASSERT_EQ(told.failed().size(), 1u);
  EXPECT_EQ(told.failed()[0].cause, "first");
}

// ---- failing -----------------------------------------------------------------------------------

TEST_P(ControlOfRanks, EveryFieldOfTheErrorReachesAll) {
  int n = GetParam();
  for (int reporter = 0; reporter < n; ++reporter) {
    auto members = sit_down(n, unhurried());
    Error error(ErrorCode::system, "the disk is full; delete \xc3\xa4 few files");
    error.rank = reporter;
    error.host = "host-b";
    error.peer = (reporter + 1) % n;
    error.collective = "all_reduce";
    error.sequence = int64_t{1} << 40;
    error.step = 12;
    error.transport = "tcp";
    members[reporter]->control->fail(error);
    members[reporter]->control->fail(Error(ErrorCode::internal, "the second does not count"));
    Error group_error = expect_one_group_error(members);
    EXPECT_EQ(group_error.message(), error.message());
    EXPECT_EQ(group_error.code, error.code);
  }
}

TEST_P(ControlOfRanks, FailuresOnAllRanksAtOnceAgree) {
  int n = GetParam();
  const ErrorCode codes[] = {ErrorCode::timeout, ErrorCode::mismatch, ErrorCode::network,
                             ErrorCode::aborted, ErrorCode::peer_lost};
  for (ErrorCode code : codes) {
    auto members = sit_down(n, unhurried());
    std::barrier together(n);
    std::vector<std::thread> threads;
    for (auto& member : members) {
      threads.emplace_back([&] {
        int rank = member->group().rank();
        Error error(code, "says rank " + std::to_string(rank));
        error.rank = rank;
        error.peer = (rank + 1) % n;
        together.arrive_and_wait();
        member->control->fail(error);
      });
    }
    for (auto& thread : threads) thread.join();
    Error group_error = expect_one_group_error(members);
    EXPECT_PRED2(contains, group_error.cause, "says rank ");
  }
}

TEST(Control, MismatchSaysWhoCalledWhat) {
  for (int reporter = 0; reporter < 4; ++reporter) {
    auto members = sit_down(4, unhurried());
    for (int rank = 0; rank < 4; ++rank) {
      members[rank]->told.set_op_status(op_status(
          7, true, rank == 2 ? "broadcast float32 x 4 from 0" : "all_reduce float32 x 4 sum"));
    }
    Error error(ErrorCode::mismatch, "different calls");
    error.rank = reporter;
    error.sequence = 7;
    members[reporter]->control->fail(error);
    Error group_error = expect_one_group_error(members);
    EXPECT_EQ(group_error.cause,
              "different calls; ranks 0, 1, 3 called all_reduce float32 x 4 sum; "
              "rank 2 called broadcast float32 x 4 from 0");
    EXPECT_EQ(group_error.peer, 2) << "the odd one out";
  }
}

TEST(Control, ACallOnAnotherChannelIsAMismatch) {
  for (int odd : {0, 2}) {
    // Often enough to be seen soon, and 480 ms for the replies.
    auto members = sit_down(3, with_heartbeat(2000));
    for (int rank = 0; rank < 3; ++rank) {
      const OpStatus earlier{6, false, "barrier"}, nothing;
      const OpStatus now{7, true, rank == odd ? "all_reduce, high priority" : "all_reduce"};
      members[rank]->told.set_op_statuses(rank == odd ? OpStatuses{earlier, now}
                                                      : OpStatuses{now, nothing});
    }
    Error group_error = expect_one_group_error(members);
    EXPECT_EQ(group_error.code, ErrorCode::mismatch);
    EXPECT_EQ(group_error.sequence, 7);
    EXPECT_PRED2(contains, group_error.cause,
                 fmt::format("rank {} called all_reduce, high priority", odd));
    EXPECT_PRED2(contains, group_error.cause,
                 odd == 0 ? "ranks 1, 2 called all_reduce" : "ranks 0, 1 called all_reduce");
  }
}

TEST(Control, TimeoutSaysWhoIsBehind) {
  for (int reporter : {0, 1}) {
    auto members = sit_down(5, unhurried());
    for (int rank = 0; rank < 5; ++rank)
      members[rank]->told.set_op_status(op_status(17, true, "all_reduce"));
    members[3]->told.set_op_status(op_status(16, true, "barrier"));
    members[4]->told.set_op_status(op_status(15, false, "broadcast"));
    Error error(ErrorCode::timeout, "not finished within 5.0 s");
    error.rank = reporter;
    error.peer = 2;
    error.transport = "tcp";
    error.sequence = 17;
    members[reporter]->control->fail(error);
    Error group_error = expect_one_group_error(members);
    EXPECT_EQ(group_error.cause,
              "not finished within 5.0 s; missing: rank 3 (at #16 barrier), rank 4 (after #15 "
              "broadcast)");
    EXPECT_EQ(group_error.peer, 3) << "the peer of the report is not at fault";
    EXPECT_EQ(group_error.transport, "");
  }
}

TEST(Control, MissingRanksAreNamedAtSetUp) {
  auto store = memory_store();
  std::atomic<bool> over{false};
  std::thread present([&] {
    Member member(*store, 2, 4);
    poll(nullptr, 0, 200);  // the root hears of it a moment later than this rank
    over = true;
  });
  Error error = error_of([&] { Member member(*store, 0, 4, {}, patiently().unless(over)); });
  EXPECT_EQ(error.code, ErrorCode::timeout);
  EXPECT_PRED2(contains, error.cause,
               "ranks 1, 3 did not open a control connection to rank 0 at 127.0.0.1:");
  EXPECT_EQ(error.peer, 1);
  present.join();
}

// ---- peers that talk nonsense ------------------------------------------------------------------

std::string raw(uint8_t type, uint16_t bytes, const std::string& body) {
  std::string text{static_cast<char>(type), 0, static_cast<char>(bytes & 0xff),
                   static_cast<char>(bytes >> 8)};
  return text + body;
}

// A group whose last rank has the key, but says what the test wants.
class Impostor {
 public:
  explicit Impostor(int n) : members(n - 1) {
    auto store = memory_store();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n - 1; ++rank) {
      threads.emplace_back(
          [&, rank] { members[rank] = std::make_unique<Member>(*store, rank, n, unhurried()); });
    }
    Identity me = Member::agree(*store, n - 1, n, patiently());
    NetAddress root = parse_net_address(store->get("address/0", patiently()));
    auto fd = dial(root, me, {Purpose::control, 0, n - 1, 0}, patiently());
    EXPECT_TRUE(fd.ok()) << fd.error().message();
    fd_ = *fd;
    for (auto& thread : threads) thread.join();
    say(frame(MessageType::introduce, encode(Introduction{77, "liar"})));
  }
  ~Impostor() { hang_up(); }
  void say(const std::string& bytes) const {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void hang_up() { close_connection(std::exchange(fd_, -1)); }

  std::vector<std::unique_ptr<Member>> members;

 private:
  int fd_ = -1;
};

TEST(Control, NonsenseEndsTheConnectionAndNamesTheRank) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* text;
  };
  const Case cases[] = {
      {"unknown type", raw(0, 0, ""),
       "a message of type 0 and 0 bytes, which is not a valid message"},
      {"unknown type", raw(99, 0, ""),
       "a message of type 99 and 0 bytes, which is not a valid message"},
      {"too long", raw(2, 2049, ""),
       "a message of type 2 and 2049 bytes, which is not a valid message"},
      {"short heartbeat", raw(2, 1, "x"),
       "a message of type 2 and 1 bytes, which is not valid here"},
      {"goodbye with luggage", raw(3, 1, "x"), "type 3 and 1 bytes, which is not valid here"},
      {"group_error of a point",
       frame(MessageType::group_error, encode(Error(ErrorCode::internal, "x"))),
       "a message of type 9"},
      {"query of a point", frame(MessageType::query),
       "type 7 and 0 bytes, which is not valid here"},
      {"left of a point", frame(MessageType::left, encode(LeftRank{0})), "a message of type 5"},
      {"text", "GET / HTTP/1.1\r\n\r\n", "which is not a valid message"},
  };
  for (const Case& c : cases) {
    Impostor impostor(3);
    impostor.say(c.bytes);
    for (Member* member : {impostor.members[0].get(), impostor.members[1].get()}) {
      ASSERT_TRUE(member->told.await_failed()) << c.name;
      Error error = member->told.failed()[0];
      EXPECT_EQ(error.code, ErrorCode::peer_lost) << c.name;
      EXPECT_EQ(error.peer, 2) << c.name;
      EXPECT_PRED2(contains, error.cause, "rank 2 (liar, pid 77) was cut off: it sent a") << c.name;
      EXPECT_PRED2(contains, error.cause, c.text) << c.name;
    }
  }
}

TEST(Control, RandomBytesOfARankAreItsDeathOrNothing) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 40; ++round) {
    Impostor impostor(2);
    std::string bytes;
    for (int messages = 0; messages < 4; ++messages) {
      std::string body = encode(OpStatuses{{1, true, std::string(random() % 250, 'x')}});
      bytes += frame(static_cast<MessageType>(1 + random() % 9), body);
    }
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    impostor.say(bytes);
    impostor.hang_up();
    // Without a goodbye it is a death; with one in the noise it is not.
    Told& told = impostor.members[0]->told;
    Deadline deadline = patiently();
    while (told.failed().empty() && told.left().empty() && !deadline.passed()) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(deadline.passed());
  }
}

TEST(Control, ALinkErrorGetsTheNameOfTheDead) {
  Impostor impostor(4);
  impostor.members[0]->told.set_op_status(op_status(17, true, "all_reduce float32 x 4"));
  Error error(ErrorCode::network, "recv: Connection reset by peer");
  error.rank = 1;
  error.peer = 3;
  error.collective = "all_reduce";
  error.sequence = 17;
  error.transport = "tcp";
  impostor.members[1]->control->fail(error);
  impostor.hang_up();
  // The report and the death arrive at the root in either order.
  Error group_error = expect_one_group_error(impostor.members);
  EXPECT_EQ(group_error.code, ErrorCode::peer_lost);
  EXPECT_EQ(group_error.peer, 3);
  EXPECT_PRED2(contains, group_error.cause, "rank 3 (liar, pid 77) died: its connection ");
  EXPECT_PRED2(contains, group_error.cause, "; rank 0 was at #17 all_reduce float32 x 4");
}

}  // namespace
}  // namespace ringwood

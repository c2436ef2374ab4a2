// Whoever watches a group: the reports of all ranks by way of one, what strangers may do, and what
// is known of ranks that are stopped or gone.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <random>

#include "tests/control/control_members.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "transports/base/host.h"
#include "transports/control/status/status_socket.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

Result<ReportPage> ask(const StatusName& name, const ReportQuery& query = {}) {
  auto fd = connect_status(name, patiently());
  if (!fd) return fd.error();
  return ask_status(fd->get(), query, patiently());
}

std::string long_report(int rank) { return std::string(1000, char('a' + rank % 26)); }

TEST(Status, AnyRankTellsTheReportsOfAll) {
  constexpr int kRanks = 40;  // several pages
  auto members = sit_down(kRanks, unhurried());
  for (int rank = 0; rank < kRanks; ++rank) members[rank]->set_report(long_report(rank));
  const auto names = names_of();
  ASSERT_EQ(names.size(), size_t{kRanks});
  for (int asked : {0, 17}) {
    EXPECT_EQ(names[asked].rank, asked);
    EXPECT_EQ(names[asked].group, names[0].group);
    std::vector<ReportRow> rows;
    for (int first = 0; first < kRanks;) {
      auto page = ask(names[asked], {.own = false, .first = first});
      ASSERT_TRUE(page.ok()) << page.error().message();
      EXPECT_EQ(page->size, kRanks);
      EXPECT_TRUE(page->relayed);
      ASSERT_GT(page->next(), first);
      first = page->next();
      rows.insert(rows.end(), page->rows.begin(), page->rows.end());
    }
    ASSERT_EQ(rows.size(), size_t{kRanks});
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(rows[rank].rank, rank);
      EXPECT_EQ(rows[rank].state, RankState::reported) << rank;
      EXPECT_EQ(rows[rank].report, long_report(rank));
      EXPECT_EQ(rows[rank].pid, getpid());
      EXPECT_EQ(rows[rank].host, host_name());
    }
    auto own = ask(names[asked], {.own = true});
    ASSERT_TRUE(own.ok());
    EXPECT_EQ(own->rows.back().rank, asked);
    EXPECT_EQ(own->rows.back().report, long_report(asked));
  }
  members[3]->set_report(std::string(kMaxReport + 1, 'x'));
  auto too_long = ask(names[3], {.own = true});
  ASSERT_TRUE(too_long.ok());
  EXPECT_EQ(too_long->rows.back().report, "") << "none rather than a part of one";
  members.clear();
  EXPECT_TRUE(names_of().empty()) << "nothing stays behind";
}

TEST(Status, WithoutTheKnobThereIsNoSocket) {
  Options options;
  options.status = false;
  auto members = sit_down(2, options);
  EXPECT_TRUE(names_of().empty());
}

// Bytes that a stranger may send instead of a query.
std::string garbage(int kind, std::mt19937& random) {
  const std::string query = encode(ReportQuery{.own = false, .first = 0});
  std::string bytes;
  switch (kind) {
    case 0: ByteWriter(bytes).number(~ByteLength{0}); return bytes;  // as long as can be
    case 1: ByteWriter(bytes).blob(query + "x", kMaxQueryBytes); return bytes;
    case 2: ByteWriter(bytes).blob(std::string(query.size(), '\xff'), kMaxQueryBytes); return bytes;
    case 3: ByteWriter(bytes).blob("", kMaxQueryBytes); return bytes;
    default:
      bytes.resize(1 + random() % 200);
      for (char& c : bytes) c = static_cast<char>(random());
      return bytes;
  }
}

TEST(Status, StrangersBytesHurtNobody) {
  auto members = sit_down(3);
  for (int rank = 0; rank < 3; ++rank) members[rank]->set_report(long_report(rank));
  const auto names = names_of();
  ASSERT_EQ(names.size(), 3u);
  std::mt19937 random(7);
  for (int kind = 0; kind < 40; ++kind) {
    const StatusName& name = names[static_cast<size_t>(kind) % names.size()];
    auto fd = connect_status(name, patiently());
    ASSERT_TRUE(fd.ok()) << fd.error().message();
    const std::string bytes = garbage(kind, random);
    ASSERT_EQ(::send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    if (kind < 4) {
      EXPECT_FALSE(ask_status(fd->get(), {}, patiently()).ok()) << "the connection ends";
    }
  }
  std::vector<OwnedFd> crowd;
  for (int i = 0; i < 40; ++i)
    if (auto fd = connect_status(names[1], patiently())) crowd.push_back(std::move(*fd));
  EXPECT_TRUE(ask(names[2]).ok()) << "others are not disturbed";
  crowd.clear();
  const Deadline deadline = patiently();
  bool answered = false;
  while (!answered && !deadline.passed()) answered = ask(names[1]).ok();
  EXPECT_TRUE(answered);
  for (const auto& member : members) EXPECT_TRUE(member->told.failed().empty());
}

TEST(Status, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  auto members = sit_down(2);
  const auto names = names_of();
  ASSERT_EQ(names.size(), 2u);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    auto fd = connect_status(names[0], within(5));
    if (!fd) _exit(0);
    // Without the check of its own end.
    _exit(ask_status(fd->get(), {}, within(5)).ok() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(ask(names[0]).ok());
}

double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// A watcher that cannot be accepted yet waits, and takes nobody's time.
TEST(Status, WithoutADescriptorAWatcherWaits) {
  auto members = sit_down(2);
  const auto names = names_of();
  ASSERT_EQ(names.size(), 2u);
  const pid_t child = fork();
  if (child == 0) {
    poll(nullptr, 0, 100);
    auto fd = connect_status(names[0], patiently());
    _exit(fd && ask_status(fd->get(), {}, patiently()).ok() ? 0 : 1);
  }
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  const rlimit none{3, usual.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  poll(nullptr, 0, 200);
  const auto began = Clock::now();
  const double before = processor_seconds();
  poll(nullptr, 0, 1000);
  const double used = processor_seconds() - before;
  setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_LT(used, 0.08 * kSlower * seconds_since(began));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Status, AStoppedRankIsSilentAndTheOthersTell) {
  for (const int stopped : {2, 0}) {
    TemporaryPath place;
    Processes ranks(3, [&](int rank, const Reporter& reporter) {
      auto store = file_store(place.path());
      Member member(*store, rank, 3, with_heartbeat(1000));  // 1.2 s for reports, 2.8 s by rank 0
      member.set_report(long_report(rank));
      reporter.say("here");
      reporter.await_go();
    });
    for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.line(rank), "here");
    const int asked = stopped == 0 ? 1 : 0;
    const auto names = names_of(ranks.pid(asked));
    ASSERT_EQ(names.size(), 1u);
    ASSERT_TRUE(ask(names[0]).ok());
    ranks.stop(stopped);
    poll(nullptr, 0, 1200);
    auto page = ask(names[0]);
    ASSERT_TRUE(page.ok()) << page.error().message();
    EXPECT_EQ(page->relayed, stopped != 0);
    const auto row = std::ranges::find(page->rows, stopped, &ReportRow::rank);
    ASSERT_NE(row, page->rows.end());
    EXPECT_EQ(row->state, RankState::silent);
    EXPECT_GE(row->silent_ms, 800u);
    EXPECT_EQ(row->pid, ranks.pid(stopped));
    const auto other = std::ranges::find(page->rows, 1, &ReportRow::rank);
    ASSERT_NE(other, page->rows.end());
    EXPECT_EQ(other->report, long_report(1));
    ranks.signal(stopped, SIGCONT);
    // Its own pause says nothing of the others, also when it hears of them before it knows of it.
    for (int look = 0; look < 50; ++look) {
      auto own = ask(names_of(ranks.pid(stopped)).at(0), {.own = true});
      ASSERT_TRUE(own.ok()) << own.error().message();
      for (const ReportRow& one : own->rows) EXPECT_LT(one.silent_ms, 60'000u) << one.rank;
    }
    ranks.go_all();
  }
}

}  // namespace
}  // namespace ringwood

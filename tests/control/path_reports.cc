// Reports on paths go to rank 0 with the heartbeats, and only what a rank can know is taken; what
// rank 0 proposes then is agreed on.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/control/control_members.h"
#include "tests/support/processes.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

TEST(PathReports, ReachRankZeroFromAllRanks) {
  auto members = sit_down(3, with_heartbeat(20));
  for (int rank = 0; rank < 3; ++rank)
    members[rank]->told.set_paths({{rank, (rank + 1) % 3, 1e6, 4e6}, {rank, (rank + 2) % 3, 0, 1}});
  const auto reports = members[0]->told.await_reports(6);
  ASSERT_EQ(reports.size(), 6u);
  std::set<std::pair<int, int>> paths;
  for (const PathReport& report : reports) {
    paths.insert({report.from, report.to});
    const bool first = report.to == (report.from + 1) % 3;
    EXPECT_EQ(report.rate, first ? 1e6 : 0);
    EXPECT_EQ(report.expected, first ? 4e6 : 1);
  }
  EXPECT_EQ(paths.size(), 6u);
  EXPECT_TRUE(members[1]->told.await_reports(1, Deadline::after(Duration::zero())).empty());
}

TEST(PathReports, AreFollowedByAChange) {
  auto members = sit_down(3, with_heartbeat(2000));  // 8 s for the answers
  members[1]->told.set_next_change({"not rank 0's", "words"});
  members[0]->told.set_next_change({"slow", "words"});
  for (auto& member : members) {
    EXPECT_TRUE(member->told.await_changes(2));
    EXPECT_EQ(member->told.changes(), std::vector<std::string>({"prepare 1 slow", "commit 1 0"}));
  }
}

TEST(PathReports, ThatNoRankSendsEndItsConnection) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const PathReport wrong :
       {PathReport{0, 2, 1, 1}, PathReport{2, 0, 1, 1}, PathReport{1, 1, 1, 1},
        PathReport{1, 3, 1, 1}, PathReport{1, 0, nan, 1}, PathReport{1, 0, -1, 1},
        PathReport{1, 0, 1, infinite}}) {
    auto members = sit_down(3, with_heartbeat(20));
    members[1]->told.set_paths({wrong});
    for (auto& member : members) EXPECT_TRUE(member->told.await_failed());
    EXPECT_TRUE(members[0]->told.await_reports(1, Deadline::after(Duration::zero())).empty());
    EXPECT_NE(members[2]->told.failed()[0].message().find("rank 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringwood

// What is made of the reports of ranks, without a job.
#include "tools/top/analysis.h"

#include <gtest/gtest.h>

namespace ringwood::tools {
namespace {

constexpr int64_t kMs = 1'000'000;

RankReport report_of(int rank, const WindowReport& window) {
  RankReport report;
  report.rank = rank;
  report.size = 4;
  report.pid = 100 + rank;
  report.now_ns = 100'000 * kMs;
  report.window = window;
  return report;
}

JobView job_of(const std::vector<RankReport>& reports) {
  GroupView group{.id = 1, .name = "world", .relayed = true, .ranks = {}};
  for (const RankReport& report : reports)
    group.ranks.push_back({.rank = report.rank,
                           .state = RankState::reported,
                           .known = true,
                           .pid = report.pid,
                           .host = "here",
                           .report = report,
                           .before = {}});
  return {.id = "1", .user = 0, .pids = {}, .groups = {group}};
}

GroupLines lines_of(const std::vector<RankReport>& reports) {
  const JobView job = job_of(reports);
  return analyse(job.groups[0], job);
}

// Rank 2 is outside while the others wait, half of a window that is shorter than a second, as where
// there are more operations in a second than the recorder keeps.
TEST(Analysis, LatenessIsThatOfAnOperationWhateverTheWindow) {
  struct Row {
    int64_t window_ms;
    uint32_t waits;
    double late_ms;
  };
  for (const Row& row :
       {Row{1000, 100, 5}, Row{200, 20, 5}, Row{200, 100, 1}, Row{100, 200, .25}}) {
    const int64_t all = row.window_ms * kMs;
    const WindowReport waiting{
        .window_ns = all, .inside_ns = all, .waited_ns = all / 2, .waits = row.waits};
    const WindowReport late{.window_ns = all, .inside_ns = all / 2};
    const GroupLines lines = lines_of(
        {report_of(0, waiting), report_of(1, waiting), report_of(2, late), report_of(3, waiting)});
    EXPECT_NEAR(lines.ranks[2].late_s * 1e3, row.late_ms, 1e-6) << row.window_ms;
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(lines.ranks[rank].condition == Condition::late, rank == 2) << row.window_ms;
  }
}

TEST(Analysis, WaitsTooShortToBeCountedMakeNobodyLate) {
  const WindowReport waiting{.window_ns = 100 * kMs, .inside_ns = 100 * kMs, .waited_ns = 20 * kMs};
  const WindowReport other{.window_ns = 100 * kMs, .inside_ns = 60 * kMs};
  for (const RankLine& line : lines_of({report_of(0, waiting), report_of(1, waiting),
                                        report_of(2, other), report_of(3, waiting)})
                                  .ranks)
    EXPECT_EQ(line.late_s, 0) << line.rank;
}

TEST(Analysis, AlarmsWhereOperationsTakeTwiceThePrediction) {
  struct Row {
    uint32_t whole;
    int64_t moving_ms;
    bool alarm;
  };
  for (const Row& row :
       {Row{10, 19, false}, Row{10, 20, true}, Row{10, 100, true}, Row{2, 100, false}}) {
    const WindowReport window{.window_ns = 1000 * kMs,
                              .inside_ns = 500 * kMs,
                              .whole = row.whole,
                              .moving_ns = row.moving_ms * kMs,
                              .predicted_ns = 10 * kMs};
    const GroupLines lines = lines_of({report_of(0, window), report_of(1, window)});
    EXPECT_EQ(lines.alarm, row.alarm) << row.whole << " " << row.moving_ms;
    EXPECT_EQ(!lines.alarm_text.empty(), row.alarm);
  }
}

// As perf: of the whole buffer, by the collective's factor.
TEST(Analysis, BusBandwidthIsThatOfPerf) {
  RankReport before = report_of(0, {}), now = before;
  now.now_ns += 2000 * kMs;
  const auto collective = static_cast<uint8_t>(Collective::all_gather);
  before.counts = {{collective, 10, 1'000'000}};
  now.counts = {{collective, 30, 9'000'000}};
  JobView job = job_of({now});
  job.groups[0].ranks[0].before = before;
  const RankLine line = analyse(job.groups[0], job).ranks[0];
  EXPECT_NEAR(line.bus_bytes_per_s, 4e6 * 3 / 4, 1);
  EXPECT_NEAR(line.operations_per_s, 10, 1e-6);
}

TEST(Analysis, TheAlgorithmIsThatOfTheCollective) {
  RankReport report = report_of(0, {});
  report.tracks = {{.sequence = 1, .inside = true, .collective = 2, .text = "broadcast"}};
  report.kinds = {{.collective = 0, .algorithm = "ring"}, {.collective = 2, .algorithm = "tree"}};
  EXPECT_EQ(lines_of({report}).ranks[0].algorithm, "tree");
  report.kinds.pop_back();
  EXPECT_EQ(lines_of({report}).ranks[0].algorithm, "");
}

}  // namespace
}  // namespace ringwood::tools

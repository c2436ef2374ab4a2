// The page for Prometheus.
#include "tools/top/metrics.h"

#include <gtest/gtest.h>

#include "collectives/schedule/collective.h"

namespace ringwood::tools {
namespace {

Sample sample_of(const std::string& host) {
  RankReport report;
  report.rank = 0;
  report.size = 4;
  report.host = host;
  report.kinds = {{.collective = static_cast<uint8_t>(Collective::all_to_all),
                   .bytes = 4 << 20,
                   .algorithm = "direct",
                   .operations = 10,
                   .mean_ns = 1'000'000}};
  report.counts = {{static_cast<uint8_t>(Collective::all_to_all), 10, 40 << 20}};
  GroupView group{.id = 1, .name = "world", .relayed = true, .ranks = {}};
  group.ranks.push_back({.rank = 0,
                         .state = RankState::reported,
                         .known = true,
                         .pid = 7,
                         .host = host,
                         .report = report,
                         .before = {}});
  for (int rank = 1; rank < 4; ++rank)
    group.ranks.push_back({.rank = rank, .host = {}, .report = {}, .before = {}});
  Sample sample;
  sample.view = {.id = "1", .user = 0, .pids = {7}, .groups = {group}};
  sample.groups = {analyse(group, sample.view)};
  return sample;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(Metrics, NameWhatInspectorNames) {
  const std::string text = prometheus_text(sample_of("node-a"), "42");
  EXPECT_TRUE(has(text, "collective=\"All2All\",message_size=\"4-5MB\",algo_proto=\"direct\""));
  EXPECT_TRUE(has(text, "slurm_job_id=\"42\""));
  // 4 MiB in a millisecond, by 3/4.
  EXPECT_TRUE(has(text, "rank=\"0\"} 3.145728\n")) << text;
  EXPECT_TRUE(has(text, "collective=\"AlltoAll\"} 41943040\n")) << text;
}

// One byte that is none would cost the whole page.
TEST(Metrics, AreValidUtf8) {
  const std::string text = prometheus_text(sample_of("n\xff\"\\\n\xc3\xa9"), "");
  EXPECT_FALSE(has(text, "\xff"));
  EXPECT_TRUE(has(text, "node=\"n\xef\xbf\xbd\\\"\\\\ \xc3\xa9\"")) << text;
  EXPECT_TRUE(text.ends_with('\n'));
}

}  // namespace
}  // namespace ringwood::tools

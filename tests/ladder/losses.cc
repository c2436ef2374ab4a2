// What a ladder calls the largest loss.
#include <gtest/gtest.h>

#include "tools/ladder/ladder.h"

namespace ringwood::tools {
namespace {

struct Case {
  const char* name;
  std::vector<LadderRow> rows;  // of one size
  const char *from, *to;        // "" : nothing is lost
  double factor;
};

class LadderLosses : public testing::TestWithParam<Case> {};

TEST_P(LadderLosses, NameTheStep) {
  const Case& c = GetParam();
  const auto losses = largest_losses({{8}, c.rows, ""});
  if (*c.from == '\0') {
    EXPECT_TRUE(losses.empty());
    return;
  }
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].from, c.from);
  EXPECT_EQ(losses[0].to, c.to);
  EXPECT_NEAR(losses[0].factor, c.factor, 1e-9);
}

LadderRow row(const char* name, double seconds) { return {name, "", "", {seconds}}; }
LadderRow beside(const char* name, double seconds) { return {name, "", "", {seconds}, true}; }

INSTANTIATE_TEST_SUITE_P(
    Tables, LadderLosses,
    testing::Values(
        // 8 B at 100 Gbit/s last 0.64 ns: a port has no latency.
        Case{"Latency",
             {row("port", 0.64e-9), row("raw socket", 40e-6), row("link", 42e-6),
              row("collective", 44e-6), row("torch", 88e-6)},
             "collective",
             "torch",
             2},
        Case{"OnlySmallSizes", {row("port", 0.64e-9), row("raw socket", 40e-6)}, "", "", 0},
        Case{"Rate",
             {row("port", 1e-3), row("raw socket", 3e-3), row("link", 3.5e-3)},
             "port",
             "raw socket",
             3},
        Case{"SocketsAreNotBelowVerbs",
             {row("port", 1e-3), beside("raw socket", 9e-3), row("raw verbs", 1.1e-3),
              row("link", 1.65e-3), row("collective", 1.7e-3)},
             "raw verbs",
             "link",
             1.5},
        Case{
            "WithoutPerftestThePortIsBelow",
            {row("port", 1e-3), beside("raw socket", 9e-3), row("raw verbs", 0), row("link", 2e-3)},
            "port",
            "link",
            2},
        Case{"NothingIsLost", {row("raw socket", 2e-3), row("link", 1e-3)}, "", "", 0}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Ladder, ARungThatEndedEarlyKeepsWhatItHas) {
  LadderRow torch{"torch", "all_gather", "the process has ended", {5e-6, 0}};
  const Ladder ladder{{8, 4096}, {{"link", "a link", "", {4e-6, 6e-6}}, torch}, ""};
  const std::string text = print_table(ladder);
  EXPECT_NE(text.find("  torch              5.00          -\n"), text.npos) << text;
  EXPECT_NE(text.find("ended early: the process has ended"), text.npos) << text;
  EXPECT_EQ(largest_losses(ladder).size(), 1u);
}

}  // namespace
}  // namespace ringwood::tools

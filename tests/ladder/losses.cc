// What a ladder calls a loss, which one the largest, and that all of them add up.
#include <algorithm>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "tools/ladder/ladder.h"

namespace ringwood::tools {
namespace {

struct Case {
  const char* name;
  std::vector<LadderRow> rows;  // of one size
  const char *from, *to;        // "" : nothing is lost
  double factor;
  const char *base, *whole;  // "" : nothing was measured
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

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

// The numbers below "# loss", of the size that many columns from the right.
std::vector<double> printed_parts(const std::string& text, size_t column) {
  std::istringstream lines(text.substr(std::min(text.size(), text.find("# loss"))));
  std::vector<double> numbers;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    std::istringstream words(line);
    const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
    const std::string& cell = cells.at(cells.size() - 1 - column);
    if (cell != "-") numbers.push_back(std::stod(cell));
  }
  return numbers;
}

// The lowest rung's time and the losses are the whole, the last one.
void expect_they_add_up(const std::vector<double>& parts) {
  ASSERT_GE(parts.size(), 2u);
  double sum = -parts.back();
  for (const double one : parts) sum += one;
  EXPECT_NEAR(sum, parts.back(), 0.05 * parts.back()) << testing::PrintToString(parts);
}

TEST_P(LadderLosses, AddUp) {
  const Case& c = GetParam();
  const Ladder ladder{{8}, c.rows, ""};
  const auto sums = all_losses(ladder);
  if (*c.base == '\0') {
    EXPECT_TRUE(sums.empty());
    EXPECT_EQ(print_table(ladder).find("# loss"), std::string::npos);
    return;
  }
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].base, c.base);
  EXPECT_EQ(sums[0].whole, c.whole);
  const auto whole = std::ranges::find(c.rows, c.whole, &LadderRow::name);
  EXPECT_EQ(sums[0].whole_seconds, whole->seconds[0]);
  double sum = sums[0].base_seconds;
  std::string below = sums[0].base;
  for (const LadderLoss& loss : sums[0].losses) {
    EXPECT_EQ(loss.from, below);
    below = loss.to;
    sum += loss.seconds;
    EXPECT_NEAR(loss.factor, sum / (sum - loss.seconds), 1e-9);
  }
  EXPECT_EQ(below, c.whole);
  EXPECT_NEAR(sum, whole->seconds[0], 1e-9 * sum);
  const std::vector<double> printed = printed_parts(print_table(ladder), 0);
  EXPECT_EQ(printed.size(), sums[0].losses.size() + 2);
  expect_they_add_up(printed);
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
             2,
             "raw socket",
             "torch"},
        Case{"OnlySmallSizes",
             {row("port", 0.64e-9), row("raw socket", 40e-6)},
             "",
             "",
             0,
             "raw socket",
             "raw socket"},
        Case{"Rate",
             {row("port", 1e-3), row("raw socket", 3e-3), row("link", 3.5e-3)},
             "port",
             "raw socket",
             3,
             "port",
             "link"},
        Case{"SocketsAreNotBelowVerbs",
             {row("port", 1e-3), beside("raw socket", 9e-3), row("raw verbs", 1.1e-3),
              row("link", 1.65e-3), row("collective", 1.7e-3)},
             "raw verbs",
             "link",
             1.5,
             "port",
             "collective"},
        Case{
            "WithoutPerftestThePortIsBelow",
            {row("port", 1e-3), beside("raw socket", 9e-3), row("raw verbs", 0), row("link", 2e-3)},
            "port",
            "link",
            2,
            "port",
            "link"},
        Case{"APortFarBelowVerbsIsLeftOut",
             {row("port", 1e-5), beside("raw socket", 1e-6), row("raw verbs", 1.1e-4),
              row("link", 1.65e-4)},
             "raw verbs",
             "link",
             1.5,
             "raw verbs",
             "link"},
        Case{"NothingIsLost",
             {row("raw socket", 2e-3), row("link", 1e-3)},
             "",
             "",
             0,
             "raw socket",
             "link"},
        Case{"SomeRungsAreFaster",
             {row("raw socket", 384.6e-6), row("link", 281.1e-6), row("collective", 362.8e-6),
              row("torch", 362.7e-6)},
             "link",
             "collective",
             362.8 / 281.1,
             "raw socket",
             "torch"},
        Case{"MuchFaster",
             {row("raw socket", 384.64e-6), row("link", 0.506e-6)},
             "",
             "",
             0,
             "raw socket",
             "link"},
        // Times of shared memory: hundredths of a microsecond count.
        Case{"BelowAMicrosecond",
             {beside("raw socket", 5e-6), row("link", 0.0349e-6), row("collective", 0.0746e-6)},
             "link",
             "collective",
             0.0746 / 0.0349,
             "link",
             "collective"},
        Case{"TwoOrders",
             {row("raw socket", 9.994e-6), row("link", 10.04e-6), row("collective", 999.94e-6),
              row("torch", 1000.4e-6)},
             "link",
             "collective",
             999.94 / 10.04,
             "raw socket",
             "torch"},
        Case{"OneRung", {row("link", 3e-6)}, "", "", 0, "link", "link"},
        Case{"OnlyBeside", {beside("raw socket", 3e-6), row("link", 0)}, "", "", 0, "", ""}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Ladder, ARungThatEndedEarlyKeepsWhatItHas) {
  LadderRow torch{"torch", "all_gather", "the process has ended", {5e-6, 0}};
  const Ladder ladder{{8, 4096}, {{"link", "a link", "", {4e-6, 6e-6}}, torch}, ""};
  const std::string text = print_table(ladder);
  EXPECT_NE(text.find("  torch              5.00          -\n"), text.npos) << text;
  EXPECT_NE(text.find("ended early: the process has ended"), text.npos) << text;
  EXPECT_EQ(largest_losses(ladder).size(), 1u);
  const auto sums = all_losses(ladder);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].whole, "torch");
  EXPECT_EQ(sums[1].whole, "link");
  EXPECT_NE(text.find("  torch             +1.00          -\n"), text.npos) << text;
  EXPECT_NE(text.find("  whole              5.00       6.00\n"), text.npos) << text;
  for (const size_t column : {0, 1}) expect_they_add_up(printed_parts(text, column));
}

// At small sizes a port is left out, at large ones it is the lowest rung.
TEST(Ladder, ThePortIsTheBaseWhereItCounts) {
  const Ladder ladder{
      {8, 1 << 20},
      {{"port", "", "", {0.64e-9, 84e-6}}, {"raw socket", "", "", {20e-6, 120.5e-6}}},
      ""};
  const std::string text = print_table(ladder);
  EXPECT_NE(text.find("  port                  -       84.0\n"), text.npos) << text;
  EXPECT_NE(text.find("  raw socket         20.0      +36.5\n"), text.npos) << text;
  for (const size_t column : {0, 1}) expect_they_add_up(printed_parts(text, column));
}

}  // namespace
}  // namespace ringwood::tools

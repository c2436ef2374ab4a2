#include "tools/simulate/simulate_work.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace ringwood::tools {
namespace {

TEST(SimulationWork, TellsWhatIsDoneOfAllAndTheTimeThatIsLeft) {
  std::string said;
  const Progress tell = [&](const std::string& text) { said = text; };
  SimulationWork work(tell);
  work.expect(300);
  work.expect(100);
  work.begin(300);
  work.show("ring", 0);
  EXPECT_EQ(said, "ring");  // nothing is known yet
  work.show("ring", 0.5);
  const std::regex left(" about [0-9.]+ (s|min|h) left$");
  EXPECT_EQ(said.substr(0, said.find(" about")), "ring; 38 % of all,");
  EXPECT_TRUE(std::regex_search(said, left)) << said;
  work.begin(100);
  work.show("direct", 0.5);
  EXPECT_EQ(said.substr(0, said.find(" about")), "direct; 88 % of all,");
}

TEST(SimulationWork, SaysNoTimeWhereMoreIsDoneThanWasExpected) {
  std::string said;
  const Progress tell = [&](const std::string& text) { said = text; };
  SimulationWork work(tell);
  work.show("ring", 0.5);
  EXPECT_EQ(said, "ring");
  work.expect(10);
  work.begin(10);
  work.begin(10);
  work.show("ring", 0.5);
  EXPECT_EQ(said, "ring");
}

}  // namespace
}  // namespace ringwood::tools

// Files that say which host is at which leaf switch.
#include "collectives/tuner/machine/topology.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/errors.h"
#include "tests/support/processes.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;
using Names = std::vector<std::string>;

TEST(Topology, HostListsAreExpanded) {
  EXPECT_EQ(expand_host_list("a"), Names{"a"});
  EXPECT_EQ(expand_host_list("n[1-3,07],b,c[9-10]x"),
            (Names{"n1", "n2", "n3", "n07", "b", "c9x", "c10x"}));
  EXPECT_EQ(expand_host_list("n[08-11]"), (Names{"n08", "n09", "n10", "n11"}));
}

TEST(Topology, LinesOfHostsAndSwitches) {
  const Topology own = parse_topology("# host leaf rail\nn1 a 0\nn1, b, 1\n\n n2 a # x\n", "file");
  EXPECT_EQ(own.leaf_of, (std::map<std::string, std::string>{{"n1", "a"}, {"n2", "a"}}));
  EXPECT_EQ(own.rails, 2);
  const Topology slurm = parse_topology(
      "SwitchName=l1 Nodes=n[1-2] LinkSpeed=1\nswitchname=l2 \\\n nodes=n7\n"
      "SwitchName=s Switches=l[1-2]\n",
      "file");
  EXPECT_EQ(slurm.leaf_of,
            (std::map<std::string, std::string>{{"n1", "l1"}, {"n2", "l1"}, {"n7", "l2"}}));
  EXPECT_EQ(slurm.rails, 1);
}

TEST(Topology, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"n1 a\nn2\n", "file, line 2: expected  HOST LEAF [RAIL]"},
      {"n1 a 0 1\n", "line 1: expected"},
      {"n1 a x\n", "line 1: 'x' is not a number"},
      {"n1 a\nn1 b\n", "line 2: host n1 is at a and at b"},
      {"SwitchName=l Nodes=n[1-3\n", "line 1: 'n[1-3' should have one pair of brackets"},
      {"SwitchName=l Nodes=n[3-1]\n", "the range 3-1 ends before it begins"},
      {"SwitchName=l Nodes=n[1-99999]\n", "more than 65536 hosts"},
      {"SwitchName=l Nodes=n[1-2,]\n", "'' is not a number"},
      {"SwitchName=l Nodes=a,,b\n", "an empty name"},
      {"SwitchName=l \\\nNodes=n[]\n", "line 2: '' is not a number"},
  };
  for (const auto& [text, why] : cases)
    EXPECT_PRED2(contains, error_of([&] { parse_topology(text, "file"); }).cause, why) << text;
}

TEST(Topology, LeavesAreNumberedByTheirFirstHosts) {
  const TemporaryPath path;
  std::ofstream(path.path()) << "n1 x\nn2 y\nn3 x\n";
  int rails = 0;
  EXPECT_EQ(leaves_of(path.path(), {"n2", "n1.domain", "n3"}, rails), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(rails, 1);
  EXPECT_PRED2(contains, error_of([&] {
                           leaves_of(path.path(), {"n2", "n9"}, rails);
                         }).cause,
               "host n9 is not in it: add a line");
  EXPECT_PRED2(contains, error_of([&] { leaves_of("/no/such", {"n2"}, rails); }).cause,
               "cannot be read on rank 0");
}

}  // namespace
}  // namespace ringwood

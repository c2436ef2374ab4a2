#include "tools/remote/host_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, ExpandsRangesWithTheirLeadingZeros) {
  EXPECT_EQ(parse_hosts("node[08-11]"), (Hosts{"node08", "node09", "node10", "node11"}));
  EXPECT_EQ(
      parse_hosts("a[1,3-4]b[1-2].lan,user@c"),
      (Hosts{"a1b1.lan", "a1b2.lan", "a3b1.lan", "a3b2.lan", "a4b1.lan", "a4b2.lan", "user@c"}));
  EXPECT_EQ(parse_hosts("10.0.0.[9-10],fd00::1"), (Hosts{"10.0.0.9", "10.0.0.10", "fd00::1"}));
}

TEST(HostList, HasEachHostOnce) {
  EXPECT_EQ(parse_hosts("b,a,b,a[1-2],a1"), (Hosts{"b", "a", "a1", "a2"}));
}

TEST(HostList, ReadsFilesOfLaunchers) {
  EXPECT_EQ(
      parse_host_file("# all\nnode1 slots=8\n\n  node2:4\nfd00::7  # far\nnode[3-4]\nnode1\n"),
      (Hosts{"node1", "node2", "fd00::7", "node3", "node4"}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  for (const char* text :
       {"", ",", "a,", "-oProxyCommand=x", "a b", "a;b", "$(a)", "a[", "a[]", "a[x]", "a[1-]",
        "a[2-1]", "a[1-99999]", "a]b", "@a", "a@", "a[-1-2]", "a[1--2]", "a[0-99][0-99][0-99]"})
    EXPECT_THROW(parse_hosts(text), Error) << text;
  EXPECT_THROW(parse_host_file("# none\n\n"), Error);
}

TEST(HostList, LeavesTheUserOut) {
  EXPECT_EQ(without_user("root@node7"), "node7");
  EXPECT_EQ(without_user("node7"), "node7");
}

}  // namespace
}  // namespace ringwood::tools

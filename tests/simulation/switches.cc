// Leaves, pods and the hash that chooses among their uplinks.
#include <gtest/gtest.h>

#include "collectives/tuner/cost/placement.h"
#include "tests/simulation/simulated.h"
#include "tools/simulation/smaller_group.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr double kBeta = 1 / 12.5e9;

// The first link of that leaf or pod.
int32_t first_uplink(const Network& network, const std::string& part) {
  for (int32_t link = 0; link < network.links(); ++link)
    if (network.name(link).starts_with(part + "/")) return link;
  return -1;
}

NetworkShape two_tiers(int leaf, int uplinks) {
  NetworkShape shape;
  shape.leaf = leaf;
  shape.uplinks = uplinks;
  return shape;
}

// Pods of 8 hosts: 4 leaves of 2.
NetworkShape three_tiers(int pod_uplinks) {
  NetworkShape shape = two_tiers(2, 2);
  shape.pod = 4;
  shape.pod_uplinks = pod_uplinks;
  return shape;
}

// 16 blocks leave each leaf over two uplinks, and a port has 7. A hash is never better, and with
// one of the two dead it is twice as much.
TEST(Switches, AdaptiveRoutesUseAllUplinks) {
  constexpr int kHosts = 8;
  constexpr size_t kBlock = 4 << 20;
  const MachineModel machine = network_only(kHosts, 0, kBeta);
  const AlgorithmRow& row = *find_algorithm(Collective::all_gather, "direct");
  const Load load = load_of(Collective::all_gather, kHosts * kBlock, kHosts);
  NetworkShape shape;
  shape.leaf = 4;
  shape.uplinks = 2;
  const double hashed = events_of(row, load, machine, shape).seconds;
  shape.adaptive = true;
  const double across = 16 * kBlock * kBeta / 2;
  EXPECT_NEAR(events_of(row, load, machine, shape).seconds / across, 1, 0.01);
  EXPECT_GE(hashed, across * 0.99);
  shape.seed = 2;
  EXPECT_NEAR(events_of(row, load, machine, shape).seconds / across, 1, 0.01);
  Faults dead;
  add_dead_uplink(dead, "leaf1/0");
  const Network network(machine, kHosts, shape, dead);
  EXPECT_NEAR(events_of(row, load, machine, shape, dead).seconds / across, 2, 0.02);
  EXPECT_EQ(network.name(first_uplink(network, "leaf1")), "leaf1/rail0 up");
}

// Each of 8 hosts of a pod sends a block to each of the other pod's 8, over 4 or 2 uplinks, and 15
// through its port; a hash is never better.
TEST(Switches, PodsShareTheirUplinks) {
  constexpr int kHosts = 16;
  constexpr size_t kBlock = 4 << 20;
  const MachineModel machine = network_only(kHosts, 0, kBeta);
  const AlgorithmRow& row = *find_algorithm(Collective::all_gather, "direct");
  const Load load = load_of(Collective::all_gather, kHosts * kBlock, kHosts);
  for (const int uplinks : {16, 4, 2}) {
    NetworkShape shape = three_tiers(uplinks);
    const double hashed = events_of(row, load, machine, shape).seconds;
    shape.adaptive = true;
    const double adaptive = events_of(row, load, machine, shape).seconds;
    const double blocks = std::max(15.0, 64.0 / uplinks);
    EXPECT_NEAR(adaptive / (blocks * kBlock * kBeta), 1, 0.01) << uplinks;
    EXPECT_GE(hashed, adaptive * 0.999) << uplinks;
  }
  Faults dead;
  add_dead_uplink(dead, "pod1/2-3");
  NetworkShape shape = three_tiers(4);
  shape.adaptive = true;
  EXPECT_NEAR(events_of(row, load, machine, shape, dead).seconds / (32 * kBlock * kBeta), 1, 0.01);
}

// Inside a pod its core is not passed.
TEST(Switches, APodsUplinksAreForOtherPods) {
  const MachineModel machine = network_only(16, 0, kBeta);
  const Network network(machine, 16, three_tiers(4), {});
  std::vector<Network::Path> paths;
  for (const auto& [to, links] : {std::pair{1, 2}, {2, 4}, {7, 4}, {8, 6}, {15, 6}}) {
    network.paths(0, to, paths);
    ASSERT_EQ(paths.size(), 1u);
    EXPECT_EQ(paths[0].count, links) << to;
  }
  EXPECT_EQ(network.name(paths[0].links[4]).substr(0, 11), "pod0/rail0/");
  EXPECT_TRUE(network.name(paths[0].links[5]).starts_with("pod1/rail0/"));
  EXPECT_TRUE(network.name(paths[0].links[5]).ends_with(" down"));
}

// The more of them a message is spread over, the less does chance decide.
TEST(Switches, QueuePairsSpreadAMessage) {
  const MachineModel machine = network_only(16, 0, kBeta);
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "halving_doubling");
  const Load load = load_of(Collective::all_reduce, 64 << 20, 16);
  const auto mean = [&](int queue_pairs, bool adaptive) {
    constexpr int kSeeds = 8;
    double sum = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      NetworkShape shape = two_tiers(4, 4);
      shape.seed = static_cast<uint64_t>(seed);
      shape.queue_pairs = queue_pairs;
      shape.adaptive = adaptive;
      sum += events_of(row, load, machine, shape).seconds;
    }
    return sum / kSeeds;
  };
  const double one = mean(1, false), four = mean(4, false), many = mean(32, false),
               best = mean(1, true);
  EXPECT_LT(four, one * 0.9);
  EXPECT_LT(many, four);
  EXPECT_GE(many, best * 0.999);
  EXPECT_LT(many, best * 1.15);
  EXPECT_EQ(mean(4, true), best);
}

TEST(Switches, QueuePairsOfOneUplinkAreOnePath) {
  const MachineModel machine = network_only(8, 0, kBeta);
  NetworkShape shape = two_tiers(4, 2);
  shape.queue_pairs = 16;
  const Network network(machine, 8, shape, {});
  std::vector<Network::Path> paths;
  network.paths(0, 1, paths);
  EXPECT_EQ(paths.size(), 1u);
  network.paths(0, 5, paths);
  EXPECT_EQ(paths.size(), 2u);
}

// Where uplinks are no limit, however they are hashed.
TEST(Switches, QueuePairsLoadRailsEvenly) {
  const MachineModel machine = network_only(16, 0, kBeta);
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "ring");
  const Load load = load_of(Collective::all_reduce, 64 << 20, 16);
  NetworkShape shape = two_tiers(4, 4);
  shape.rails = 4;
  const double one = events_of(row, load, machine, shape).seconds;
  for (const int pairs : {2, 3, 6}) {
    shape.queue_pairs = pairs;
    EXPECT_NEAR(events_of(row, load, machine, shape).seconds / one, 1, 0.01) << pairs;
  }
}

// Leaves below other spines need no uplinks of the same number.
TEST(Switches, EachPodHasSpinesOfItsOwn) {
  const MachineModel machine = network_only(16, 0, kBeta);
  Faults dead;
  add_dead_uplink(dead, "leaf0/0");
  add_dead_uplink(dead, "leaf7/1");
  const Network network(machine, 16, three_tiers(4), dead);
  std::vector<Network::Path> paths;
  network.paths(0, 15, paths);
  EXPECT_EQ(network.name(paths[0].links[2]), "leaf0/rail0/1 up");
  EXPECT_EQ(network.name(paths[0].links[3]), "leaf7/rail0/0 down");
}

TEST(Switches, RefuseWhatIsNotThereAndNoWayAtAll) {
  const MachineModel machine = network_only(16, 0, kBeta);
  const auto refused = [&](const NetworkShape& shape, const char* dead) {
    Faults faults;
    add_dead_uplink(faults, dead);
    try {
      const Network network(machine, 16, shape, faults);
    } catch (const Error& error) {
      return error.cause;
    }
    return std::string();
  };
  EXPECT_NE(refused(three_tiers(4), "pod2/0").find("among 2 pods"), std::string::npos);
  EXPECT_NE(refused(three_tiers(4), "pod1/4").find("4 uplinks of a pod"), std::string::npos);
  EXPECT_NE(refused(two_tiers(2, 2), "pod0/0").find("there is no pod0: say with --pod"),
            std::string::npos);
  EXPECT_NE(refused({}, "leaf0/0").find("there is no leaf0: say with --leaf"), std::string::npos);
  EXPECT_NE(refused(three_tiers(4), "pod1/0-3").find("alive at both pod1 and pod0"),
            std::string::npos);
  EXPECT_EQ(refused(three_tiers(4), "pod1/0-2"), "");
  EXPECT_NE(refused(three_tiers(INT32_MAX), "pod1/0").find("more than the 2 million"),
            std::string::npos);
}

// ---- smaller groups

TEST(SmallerGroup, KeepsWhatIsNotLikeTheRest) {
  const SharedPlacement whole = placement_of(hosts_of_eight(32), 256);
  Faults faults;
  add_slow_port(faults, "host9=0.5");
  add_slow_port(faults, "host17=0.5");
  add_late_rank(faults, "rank251=1s");
  const auto small = SmallerGroup::of(*whole, 8, {}, faults, 16);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->n(), 64);
  const Faults here = small->faults(faults);
  // Both would be host 1, and host 2 is the root's.
  EXPECT_EQ(here.ports[0].host, 1);
  EXPECT_EQ(here.ports[1].host, 3);
  EXPECT_EQ(here.late[0].rank, 7 * 8 + 3);
  EXPECT_EQ(small->rank(16), 16);
  const Network group(whole->machine, 256, {}, faults), network(small->machine(), 64, {}, here);
  const int32_t link = small->link_of_group(network, network.port(3, 0, true), group);
  EXPECT_EQ(group.name(link), "host17/rail0 in");
}

TEST(SmallerGroup, HasWholeLeaves) {
  const NetworkShape leaves = two_tiers(4, 4);
  const SharedPlacement whole = placement_of(hosts_of_eight(32), 256);
  Faults faults;
  add_dead_uplink(faults, "leaf6/1");
  EXPECT_FALSE(SmallerGroup::of(*whole, 10, leaves, faults, 0));
  const auto small = SmallerGroup::of(*whole, 16, leaves, faults, 0);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->faults(faults).uplinks[0].part, 2);
  EXPECT_EQ(small->machine().net.leaves,
            (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
}

TEST(SmallerGroup, HasWholePods) {
  const SharedPlacement whole = placement_of(hosts_of_eight(32), 256);
  const NetworkShape pods = three_tiers(4);
  Faults faults;
  add_dead_uplink(faults, "pod3/1");
  add_dead_uplink(faults, "leaf13/1");  // of the same pod
  EXPECT_FALSE(SmallerGroup::of(*whole, 12, pods, faults, 0));
  const auto small = SmallerGroup::of(*whole, 16, pods, faults, 0);
  ASSERT_TRUE(small);
  const Faults here = small->faults(faults);
  EXPECT_EQ(here.uplinks[0].part, 1);
  EXPECT_EQ(here.uplinks[1].part, 5);
  const Network group(whole->machine, 256, pods, faults),
      network(small->machine(), small->n(), pods, here);
  for (const auto& [link, name] :
       {std::pair{"pod1", "pod3/rail0/0 up"}, {"leaf5", "leaf13/rail0/0 up"}})
    EXPECT_EQ(group.name(small->link_of_group(network, first_uplink(network, link), group)), name);
}

}  // namespace
}  // namespace ringwood

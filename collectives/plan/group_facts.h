// What plans depend on besides their calls: where the ranks of a group are, and how their machines
// carry out an operation. Equal on all ranks, and the same for the group's whole life.
#pragma once

#include <vector>

#include "collectives/plan/agreement.h"
#include "collectives/plan/protocol.h"

namespace ringwood {

struct GroupFacts {
  // By rank: its host, numbered from 0 in the order of the hosts' first ranks. Empty: all
  // on one host.
  std::vector<int> hosts;
  // By rank: its memory node (NUMA), numbered likewise, no node on two hosts. Empty: each host is
  // one node.
  std::vector<int> nodes;
  int cores = 2;          // of each host, for all its ranks together
  bool loopback = false;  // inside a host messages go over sockets, too
  ProtocolLimits limits;  // measured with the machines (calibrate.h), or the defaults

  bool operator==(const GroupFacts&) const = default;
  int host_of(int rank) const { return hosts.empty() ? 0 : hosts[rank]; }
  GroupSize size(int n) const { return group_size(hosts, n, cores); }
  bool same_node(int a, int b) const { return nodes.empty() || nodes[a] == nodes[b]; }
};

}  // namespace ringwood

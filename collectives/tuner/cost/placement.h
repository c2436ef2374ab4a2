// Placements of groups on hosts, and smaller ones that resemble them: on those a schedule is
// simulated where all ranks are too many (cost_quotient.h, row_profile.h in choice/).
//
// Host and index of a rank always come from the table of hosts, so ranks may be numbered host by
// host, dealt out in turn, or in any other order. Pure values; thread-safe once made.
#pragma once

#include <memory>
#include <vector>

#include "collectives/algorithms/hosts.h"
#include "collectives/tuner/machine/machine_model.h"

namespace ringwood {

struct Placement {
  MachineModel machine;  // `hosts` has an entry for each rank
  int n = 1;
  Hosts hosts, nodes;
  int ranks_of_a_host = 0;  // 0: hosts differ
  // Of a sibling: the leaf switches of the group's hosts, if they are known.
  std::vector<int> group_leaves;

  Where where(int rank) const {
    return {rank, n, 0, {machine.hosts, &hosts}, {machine.nodes, &nodes}};
  }
  bool regular() const { return ranks_of_a_host > 0; }
};
using SharedPlacement = std::shared_ptr<const Placement>;

SharedPlacement placement_of(const MachineModel& machine, int n);

// The most similar one in which all hosts have the same number of ranks: the most frequent number.
// Where ranks are numbered host by host, n / number hosts, rounded; else the hosts that have as
// many ranks, without those in excess. The network of every host is that of the slowest.
SharedPlacement nearest_regular(const SharedPlacement& placement);

// Some hosts of a regular placement and the first ranks on each of them, in the order of their
// numbers. Cores, memory, caches and network of a host are reduced in proportion to its ranks.
SharedPlacement sibling(const Placement& regular, int hosts, int ranks_of_a_host);
// The same with the leaf switches of the first hosts. Null where they are not known, or one.
SharedPlacement sibling_with_leaves(const Placement& regular, int hosts, int ranks_of_a_host);

// The same with the hosts that are not like the others, of a placement of hosts of one size. Each
// keeps its number, or where there are fewer hosts what is left of it divided by theirs: so it lies
// to powers of two as it does. Null where those are more than half of the hosts, or none.
SharedPlacement sibling_with_exceptions(const Placement& whole, int hosts);

}  // namespace ringwood

// Which ranks share a host, as the hierarchical algorithms need it. Internal to algorithms/.
#pragma once

#include <vector>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

struct Hosts {
  std::vector<std::vector<int>> ranks;  // by host, in order of their first ranks; each ascending
  std::vector<int> host, index;         // by rank: ranks[host[r]][index[r]] == r
  int smallest = 0;                     // number of ranks of the smallest host

  int count() const { return static_cast<int>(ranks.size()); }
  int size(int h) const { return static_cast<int>(ranks[h].size()); }
};
Hosts hosts_of(const Where& where);

// There are several hosts, and several ranks on one of them.
bool has_hierarchy(const Where& where);

// The same with memory nodes (NUMA) as hosts.
Where by_node(const Where& where);
// There are several memory nodes on a host, and several ranks on one of them.
bool has_nodes(const Where& where);

}  // namespace ringwood

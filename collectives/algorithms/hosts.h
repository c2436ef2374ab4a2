// Which ranks share a host, as the hierarchical algorithms need it. Internal to algorithms/, and to
// what places groups (tuner/cost/placement.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

struct HostTable {
  std::vector<std::vector<int>> ranks;  // by host, in order of their first ranks; each ascending
  std::vector<int> host, index;         // by rank: ranks[host[r]][index[r]] == r
  int smallest = 0;                     // number of ranks of the smallest host
};

// A handle: copies share one table, so that a group's is made once. Immutable; any thread.
struct Hosts {
  explicit Hosts(std::shared_ptr<const HostTable> made)
      : table(std::move(made)),
        ranks(table->ranks),
        host(table->host),
        index(table->index),
        smallest(table->smallest) {}

  std::shared_ptr<const HostTable> table;
  const std::vector<std::vector<int>>& ranks;  // as in HostTable
  const std::vector<int>&host, &index;
  int smallest;

  int count() const { return static_cast<int>(ranks.size()); }
  int size(int h) const { return static_cast<int>(ranks[h].size()); }
  // All hosts have equally many ranks.
  bool alike() const { return static_cast<size_t>(smallest) * ranks.size() == host.size(); }
};
// Those that `where` carries, else made from its list of hosts, in O(n).
Hosts hosts_of(const Where& where);

// There are several hosts, and several ranks on one of them.
bool has_hierarchy(const Where& where);

// The same with memory nodes (NUMA) as hosts.
Where by_node(const Where& where);
// There are several memory nodes on a host, and several ranks on one of them.
bool has_nodes(const Where& where);

}  // namespace ringwood

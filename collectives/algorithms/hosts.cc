#include "collectives/algorithms/hosts.h"

#include <algorithm>
#include <map>

namespace ringwood {

Hosts hosts_of(const Where& where) {
  Hosts result;
  std::map<int, int> number;  // by the name that `where` gives a host
  for (int rank = 0; rank < where.n; ++rank) {
    const int name = where.host.empty() ? 0 : where.host[rank];
    const auto [at, is_new] = number.try_emplace(name, result.count());
    if (is_new) result.ranks.emplace_back();
    auto& here = result.ranks[at->second];
    result.host.push_back(at->second);
    result.index.push_back(static_cast<int>(here.size()));
    here.push_back(rank);
  }
  result.smallest = where.n;
  for (const auto& ranks : result.ranks) {
    result.smallest = std::min(result.smallest, static_cast<int>(ranks.size()));
  }
  return result;
}

bool has_hierarchy(const Where& where) {
  const Hosts hosts = hosts_of(where);
  return hosts.count() > 1 && hosts.count() < where.n;
}

Where by_node(const Where& where) { return {where.rank, where.n, where.root, where.node}; }

bool has_nodes(const Where& where) {
  return !where.node.empty() && has_hierarchy(by_node(where)) &&
         hosts_of(by_node(where)).count() > hosts_of(where).count();
}

}  // namespace ringwood

#include "collectives/algorithms/hosts.h"

#include <algorithm>
#include <map>

namespace ringwood {

namespace {

HostTable table_of(const Where& where) {
  HostTable result;
  // By the host's number in `where`, which is usually small.
  std::vector<int> numbers(where.n, -1);
  std::map<int, int> other_numbers;
  for (int rank = 0; rank < where.n; ++rank) {
    const int name = where.host.empty() ? 0 : where.host[rank];
    int& host = name >= 0 && name < where.n ? numbers[name]
                                            : other_numbers.try_emplace(name, -1).first->second;
    if (host < 0) {
      host = static_cast<int>(result.ranks.size());
      result.ranks.emplace_back();
    }
    auto& here = result.ranks[host];
    result.host.push_back(host);
    result.index.push_back(static_cast<int>(here.size()));
    here.push_back(rank);
  }
  result.smallest = where.n;
  for (const auto& ranks : result.ranks) {
    result.smallest = std::min(result.smallest, static_cast<int>(ranks.size()));
  }
  return result;
}

}  // namespace

Hosts hosts_of(const Where& where) {
  if (where.host.hosts) return *where.host.hosts;
  return Hosts(std::make_shared<const HostTable>(table_of(where)));
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

// A group for every row: flat rows take any, hierarchical ones need several hosts.
#pragma once

#include <optional>
#include <vector>

#include "collectives/algorithms.h"

namespace ringwood::testing {

// Hosts (as in Where) on which the row accepts n ranks: none if it does without, else two or three
// ranks on each, the last one's rest; nothing if it does not accept n at all.
inline std::optional<std::vector<int>> hosts_for(const AlgorithmRow& row, int n) {
  if (row.accepts(n)) return std::vector<int>{};
  for (int size : {3, 2}) {
    std::vector<int> host;
    for (int rank = 0; rank < n; ++rank) host.push_back(rank / size);
    if (row.accepts(Where{0, n, 0, host})) return host;
  }
  return std::nullopt;
}

}  // namespace ringwood::testing

// A group for every row: flat rows take any, hierarchical ones need several hosts or memory nodes.
#pragma once

#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.h"

namespace ringwood::testing {

struct Places {
  std::vector<int> host, node;  // as in Where
  Where where(int rank, int n, int root) const { return {rank, n, root, host, node}; }
};

// Where the row accepts n ranks: anywhere if it does, else on hosts, else on memory nodes of two or
// three ranks each, the last one's rest; nothing if it does not accept n at all.
inline std::optional<Places> places_for(const AlgorithmRow& row, int n) {
  if (row.accepts(n)) return Places{};
  for (int size : {3, 2}) {
    std::vector<int> group;
    for (int rank = 0; rank < n; ++rank) group.push_back(rank / size);
    for (const Places& places : {Places{group, {}}, Places{{}, group}})
      if (row.accepts(places.where(0, n, 0))) return places;
  }
  return std::nullopt;
}

}  // namespace ringwood::testing

// Hierarchical trees: one rank of each host leads, the leaders form a tree, and each leader is the
// root of a tree of its host.
//
//   hierarchical           broadcast: ceil(log2 H) rounds across H hosts, ceil(log4 k) inside of k
//                          ranks; reduce: the same backwards
//   cost                   log2 H (alpha + S beta) across + log4 k (alpha + 3 S beta) inside
//   hierarchical_knomial   ceil(log4 H) rounds across, 1 inside
//   cost                   log4 H (alpha + 3 (post + S beta)) across + alpha + (k-1) S beta inside
//
// S bytes enter (reduce: leave) each host but the root's, once, which no algorithm can go below; a
// flat tree does so only where the numbering of the ranks happens to fit. The root leads its host,
// elsewhere the first rank does. Hosts may be of unequal size. hierarchical_knomial wins for small
// messages on many hosts: a round across takes as long as several posts, and in shared memory a
// leader serves all ranks of its host at once. Source: the two-level collectives of MPICH and
// MVAPICH.
//
//   3 hosts, root 0      0 --+-- 3 --+-- 4        host 0: 0 1 2
//                            |       +-- 5        host 1: 3 4 5
//                            +-- 6 ----- 7        host 2: 6 7
//                            +-- 1
//                            +-- 2
#include <algorithm>

#include "collectives/algorithms/hosts.h"
#include "collectives/algorithms/tree.h"

namespace ringwood {
namespace {

// Of trees of these radices across and inside.
TreePlace place_of(const Where& where, int across_radix, int inside_radix) {
  const Hosts hosts = hosts_of(where);
  const int h = hosts.host[where.rank], root_host = hosts.host[where.root];
  std::vector<int> leaders;
  for (const auto& ranks : hosts.ranks) leaders.push_back(ranks[0]);
  leaders[root_host] = where.root;

  const int lead = hosts.index[leaders[h]], size = hosts.size(h);
  const int v = wrap(hosts.index[where.rank] - lead, size);
  TreePlace place =
      renamed(rotated(knomial_place(v, size, inside_radix), lead, size), hosts.ranks[h]);
  if (leaders[h] != where.rank) return place;

  const int count = hosts.count(), w = wrap(h - root_host, count);
  TreePlace across =
      renamed(rotated(knomial_place(w, count, across_radix), root_host, count), leaders);
  across.children.insert(across.children.end(), place.children.begin(), place.children.end());
  return across;
}

}  // namespace

Schedule hierarchical_broadcast(const Where& where) {
  return tree_broadcast(where, place_of(where, 2, 4));
}
Schedule hierarchical_reduce(const Where& where) {
  return tree_reduce(where, place_of(where, 2, 4));
}
Schedule hierarchical_knomial_broadcast(const Where& where) {
  return tree_broadcast(where, place_of(where, 4, std::max(2, where.n)));
}
Schedule hierarchical_knomial_reduce(const Where& where) {
  return tree_reduce(where, place_of(where, 4, std::max(2, where.n)));
}

}  // namespace ringwood

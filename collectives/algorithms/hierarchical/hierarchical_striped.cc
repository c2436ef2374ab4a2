// Hierarchical trees on every rail: the buffer is cut into one shard for each rank of a host, and
// the ranks of one index carry their shard between the hosts.
//
// H hosts, m ranks on the smallest; the j-th rank of each host owns shard j:
//
//   broadcast   the root gives each owner of its host its shard, the owners of a shard hand it on
//               in a double tree of the hosts, and each gives it to the other ranks of its host;
//               log2 H + 4 rounds
//   reduce      the same backwards: an owner adds its host's ranks to what comes from other hosts
//   cost        in L segments: (log2 H + 4 + L) (alpha + S/(m L) beta) across, all m at once;
//               inside, a rank receives S (m-1)/m bytes
//
// S bytes enter (reduce: leave) each host but the root's, once, as in `hierarchical`, but all ranks
// of the host carry them and not its leader alone. So it wins for large messages where the ranks of
// a host have rails of their own, or where one core cannot fill the network. Rail-aligned: ranks
// talk across only to their own index. Hosts may be of unequal size: ranks beyond the smallest host
// own no shard. Source: the two trees as in double_tree.cc.
//
//   2 hosts x 2 ranks, root 0,     shard 0:   0 --+-- 1          shard 1:   0 --- 1 --- 3 --- 2
//   both trees alike                              +-- 2 --- 3
#include "collectives/algorithms/hosts.h"
#include "collectives/algorithms/tree.h"

namespace ringwood {
namespace {

// Of shard j, in tree 0 or 1 of the hosts. The root is above the owner of its host.
TreePlace place_of(const Where& where, const Hosts& hosts, int j, int tree) {
  const int h = hosts.host[where.rank], root_host = hosts.host[where.root];
  const int owner = hosts.ranks[h][j];
  const bool rooted = h == root_host && owner != where.root;
  if (where.rank == where.root && rooted) return {-1, {owner}};
  if (where.rank != owner) return {owner, {}};

  std::vector<int> owners;
  for (const auto& ranks : hosts.ranks) owners.push_back(ranks[j]);
  TreePlace place = renamed(double_tree_place(tree, {h, hosts.count(), root_host}), owners);
  if (rooted) place.parent = where.root;
  // From the next index on, so that no rank is the first peer of all owners.
  for (int i = 1; i < hosts.size(h); ++i) {
    const int peer = hosts.ranks[h][wrap(j + i, hosts.size(h))];
    if (peer != where.root) place.children.push_back(peer);
  }
  return place;
}

// Calls step(place, chunk) for each half of each shard.
template <class Step>
Schedule of_every_shard(const Where& where, Step&& step) {
  const Hosts hosts = hosts_of(where);
  Schedule s{where.rank, where.n, 2 * hosts.smallest, {}, {}};
  for (int j = 0; j < hosts.smallest; ++j)
    for (const int tree : {0, 1}) step(s, place_of(where, hosts, j, tree), 2 * j + tree);
  return s;
}

}  // namespace

Schedule hierarchical_striped_broadcast(const Where& where) {
  return of_every_shard(
      where, [](Schedule& s, const TreePlace& place, int chunk) { hand_down(s, place, {chunk}); });
}
Schedule hierarchical_striped_reduce(const Where& where) { return of_every_shard(where, add_up); }

}  // namespace ringwood

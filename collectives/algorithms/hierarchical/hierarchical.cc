// Hierarchical: add inside each host, then across hosts, then distribute inside; composed from
// flat schedules.
//
// H hosts, k ranks on the smallest, m shards:
//
//   hierarchical           m = k: the j-th rank of a host owns shard j and alone speaks for the
//                          host about it. 2 rounds inside and those of `mixed_radix` (H = 2:
//                          `exchange`) across; 2 (H-1)/H S/k bytes across per rank
//   hierarchical_direct    the same with `direct` across: 2 rounds, H-1 partners for each rank
//   hierarchical_leaders   m = 1: one owner, recursive doubling across; S log2 H bytes across
//   cost                   2 alpha_in + 2 (m-1)/m S beta_in + across(H, S/m), all m at once
//
//   hierarchical_nodes     the same with memory nodes (NUMA) for hosts; where there are several
//                          hosts, too, `hierarchical` among the owners of a shard: three levels
//
// 2 (H-1)/H S bytes leave each host, which no all-reduce can go below, and all of its ranks send
// them, so that several cores (and NICs) serve the network. A flat ring sends as little where
// ranks are numbered host by host, but in 2 (n-1) rounds and through one rank, and n/H times as
// much where they are numbered round robin. hierarchical_direct adds up each element once inside a
// host and once across: 16-bit sums are rounded twice, however many hosts there are. (Where H is
// 4 or an odd prime, `hierarchical` is the same.) hierarchical_leaders has fewer messages between
// hosts and wins for small messages. Hosts may be of unequal size: ranks beyond the smallest
// host's own no shard. Source: Jain et al., MVAPICH's two-level designs; NCCL and Horovod's
// hierarchical all-reduce.
//
//   2 hosts x 2 ranks, [shard]      1. inside           2. across           3. inside
//     rank 0, host 0                  [0] <-> [1]         [0] <--+            [0] <-> [1]
//     rank 1, host 0                                      [1] <--|-+
//     rank 2, host 1                  [0] <-> [1]         [0] <--+ |          [0] <-> [1]
//     rank 3, host 1                                      [1] <----+
#include "collectives/algorithms/hosts.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// Chunk c of all `n` ranks is added at rank c, which is one of them; c < chunks <= n.
Schedule sums_to_owners(int r, int n, int chunks) {
  Schedule s{r, n, chunks, {}, {}};
  for (int i = 1; i < n; ++i) {
    const int owner = wrap(r + i, n);
    if (owner < chunks) s.send(owner, {owner});
  }
  for (int i = 1; i < n && r < chunks; ++i) s.recv_reduce(wrap(r - i, n), {r});
  return s;
}

Schedule sums_to_all(int r, int n, int chunks) {
  Schedule s{r, n, chunks, {}, {}};
  for (int i = 1; i < n && r < chunks; ++i) s.send(wrap(r + i, n), {r});
  for (int i = 1; i < n; ++i) {
    const int owner = wrap(r - i, n);
    if (owner < chunks) s.recv(owner, {owner});
  }
  return s;
}

// `across` all-reduces a shard among the hosts; its chunks are the pieces of the shard.
Schedule compose(const Where& where, const Hosts& hosts, int shards, const Schedule& across) {
  const int h = hosts.host[where.rank], j = hosts.index[where.rank], size = hosts.size(h);
  const std::vector<int>& inside = hosts.ranks[h];
  Schedule s = on(inside, where.n, widen(sums_to_owners(j, size, shards), across.chunks));
  if (j < shards) {
    std::vector<int> owners;
    for (const auto& ranks : hosts.ranks) owners.push_back(ranks[j]);
    s = then(s, within(j * across.chunks, s.chunks, on(owners, where.n, across)));
  }
  return then(s, on(inside, where.n, widen(sums_to_all(j, size, shards), across.chunks)));
}

Schedule flat_all_reduce(const Where& where) {
  return where.n == 2 ? exchange_all_reduce(where) : mixed_radix_all_reduce(where);
}

}  // namespace

Schedule hierarchical_all_reduce(const Where& where) {
  const Hosts hosts = hosts_of(where);
  const Where place{hosts.host[where.rank], hosts.count()};
  return compose(where, hosts, hosts.smallest, flat_all_reduce(place));
}

Schedule hierarchical_direct_all_reduce(const Where& where) {
  const Hosts hosts = hosts_of(where);
  const Where place{hosts.host[where.rank], hosts.count()};
  return compose(where, hosts, hosts.smallest, direct_all_reduce(place));
}

Schedule hierarchical_nodes_all_reduce(const Where& where) {
  const Hosts nodes = hosts_of(by_node(where));
  std::vector<int> host;  // of each node
  for (const auto& ranks : nodes.ranks)
    host.push_back(where.host.empty() ? 0 : where.host[ranks[0]]);
  const Where place{nodes.host[where.rank], nodes.count(), 0, host};
  return compose(where, nodes, nodes.smallest,
                 has_hierarchy(place) ? hierarchical_all_reduce(place) : flat_all_reduce(place));
}

Schedule hierarchical_leaders_all_reduce(const Where& where) {
  const Hosts hosts = hosts_of(where);
  const Where place{hosts.host[where.rank], hosts.count(), 0, {}};
  return compose(where, hosts, 1, recursive_doubling_all_reduce(place));
}

}  // namespace ringwood

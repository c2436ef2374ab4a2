// Hierarchical all-gather and reduce-scatter with few partners across: the ranks of one index on
// all hosts run a flat row among themselves, and the ranks of a host share the results.
//
// H hosts of k:
//
//   hierarchical_pat    `pat` across: log2 H rounds of one message each
//   hierarchical_ring   `ring` across: H-1 rounds, two neighbours
//   all_gather          those across, then 1 round inside of one message of H blocks to each peer
//   reduce_scatter      the same backwards; H blocks of scratch
//   cost                across(H, B) + alpha + (k-1) H B beta inside, all k indices at once
//
// As many bytes as `hierarchical`, whose ranks have H-1 partners across: n/k B leave each host, the
// least possible, shared evenly by its ranks. `hierarchical_pat` wins for small blocks on many
// hosts; `hierarchical_ring` for large ones where a rank can have few connections, or where traffic
// to near hosts is better. Rail-aligned: ranks talk across only to their own index, so with one
// rail for each index no byte changes rails. All hosts must have equally many ranks. Source: as
// hierarchical_blocks.cc and the flat rows.
//
//   2 hosts x 2 ranks, all_gather    across   0 <-> 2   1 <-> 3
//                                    inside   0: blocks 0 2 <-> 1: blocks 1 3, 2 and 3 alike
#include "collectives/algorithms/hosts.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

using Build = Schedule (*)(const Where&);

struct Column {
  int home;
  std::vector<int> ranks;  // by host: that of this rank's index
  // Of any index: the blocks in the order in which a ring brings them to this host.
  std::vector<Span> blocks(const Hosts& hosts, int index) const {
    std::vector<Span> result;
    for (int i = 0; i < hosts.count(); ++i)
      result.push_back({hosts.ranks[wrap(home - i, hosts.count())][index]});
    return result;
  }
};

Column column_of(const Hosts& hosts, int rank) {
  Column column{hosts.host[rank], {}};
  for (const auto& ranks : hosts.ranks) column.ranks.push_back(ranks[hosts.index[rank]]);
  return column;
}

Schedule all_gather(const Where& where, Build across) {
  const Hosts hosts = hosts_of(where);
  const Column column = column_of(hosts, where.rank);
  Schedule s{where.rank, where.n, where.n, {}, {}};
  append(s, across({column.home, hosts.count()}), column.ranks, column.ranks);
  for (const int peer : hosts.ranks[column.home])
    if (peer != s.rank) s.send_joined(peer, column.blocks(hosts, hosts.index[s.rank]));
  for (const int peer : hosts.ranks[column.home])
    if (peer != s.rank) s.recv_joined(peer, column.blocks(hosts, hosts.index[peer]));
  return s;
}

Schedule reduce_scatter(const Where& where, Build across) {
  const Hosts hosts = hosts_of(where);
  const Column column = column_of(hosts, where.rank);
  Schedule s{where.rank, where.n, where.n + 1, {}, {}};
  for (const int peer : hosts.ranks[column.home])
    if (peer != s.rank) s.send_joined(peer, column.blocks(hosts, hosts.index[peer]));
  std::vector<int> chunks;  // of the flat row: this host's sums, and the output
  for (const int block : column.ranks) {
    chunks.push_back(s.add_scratch(block));
    s.copy({chunks.back()}, {block});
  }
  std::vector<Span> sums;
  for (int i = 0; i < hosts.count(); ++i)
    sums.push_back({chunks[wrap(column.home - i, hosts.count())]});
  for (const int peer : hosts.ranks[column.home])
    if (peer != s.rank) s.recv_reduce_joined(peer, sums);
  chunks.push_back(where.n);
  append(s, across({column.home, hosts.count()}), column.ranks, chunks);
  return s;
}

}  // namespace

Schedule hierarchical_pat_all_gather(const Where& where) {
  return all_gather(where, pat_all_gather);
}
Schedule hierarchical_ring_all_gather(const Where& where) {
  return all_gather(where, ring_all_gather);
}
Schedule hierarchical_pat_reduce_scatter(const Where& where) {
  return reduce_scatter(where, pat_reduce_scatter);
}
Schedule hierarchical_ring_reduce_scatter(const Where& where) {
  return reduce_scatter(where, ring_reduce_scatter);
}

}  // namespace ringwood

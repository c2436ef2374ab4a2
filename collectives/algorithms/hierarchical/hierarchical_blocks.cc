// Hierarchical all-gather and reduce-scatter: each block, or each host's sum of it, crosses to each
// other host once, and the ranks of a host share that work.
//
//   all_gather       1 round across, 1 inside; n/k - 1 blocks of B bytes across per rank of a host
//                    of k
//   reduce_scatter   1 round inside, 1 across; scratch for as many blocks
//   cost             alpha + (n-k)/k B beta across, alpha + (k-1) n/k B beta inside
//
// `direct` sends k times as much across, and the flat ring too unless the ranks are numbered host
// by host. A block has one helper on every other host: the rank whose index there is the block's
// index at home, modulo the size: on hosts of one size ranks talk across only to their own index,
// so that each rail carries its index's traffic. What a rank has for a peer of its host is one
// message. Hosts may be of unequal size. Source: as hierarchical.cc; this is its first and its last
// phase for blocks.
//
//   2 hosts x 2 ranks, all_gather    across   0 <-> 2   1 <-> 3
//                                    inside   0: blocks 0 2 <-> 1: blocks 1 3, 2 and 3 alike
#include <algorithm>

#include "collectives/algorithms/hosts.h"

namespace ringwood {
namespace {

// The rank on host h that represents rank `of`: itself on its own host, else its helper.
int stand_in(const Hosts& hosts, int of, int h) {
  if (hosts.host[of] == h) return of;
  return hosts.ranks[h][hosts.index[of] % hosts.size(h)];
}

// The ranks that `r` represents on its host, beginning with itself and wrapping around, so that no
// rank is the first peer of all others.
std::vector<int> represented(const Hosts& hosts, int r) {
  const int home = hosts.host[r];
  std::vector<int> result = {r};
  for (int h = 0; h < hosts.count(); ++h)
    for (int j = hosts.index[r]; h != home && j < hosts.size(h); j += hosts.size(home))
      result.push_back(hosts.ranks[h][j]);
  std::sort(result.begin(), result.end());
  std::rotate(result.begin(), std::lower_bound(result.begin(), result.end(), r), result.end());
  return result;
}

std::vector<Span> blocks(const std::vector<int>& chunks) {
  std::vector<Span> result;
  for (const int chunk : chunks) result.push_back({chunk});
  return result;
}

}  // namespace

Schedule hierarchical_all_gather(const Where& where) {
  const int r = where.rank, n = where.n;
  const Hosts hosts = hosts_of(where);
  const int home = hosts.host[r];
  Schedule s{r, n, n, {}, {}};
  for (int i = 1; i < hosts.count(); ++i) {
    s.send(stand_in(hosts, r, wrap(home + i, hosts.count())), {r});
  }
  const std::vector<int> mine = represented(hosts, r);
  for (int block : mine) {
    if (block != r) s.recv(block, {block});
  }
  for (int peer : hosts.ranks[home])
    if (peer != r) s.send_joined(peer, blocks(mine));
  for (int peer : hosts.ranks[home])
    if (peer != r) s.recv_joined(peer, blocks(represented(hosts, peer)));
  return s;
}

Schedule hierarchical_reduce_scatter(const Where& where) {
  const int r = where.rank, n = where.n;
  const Hosts hosts = hosts_of(where);
  const int home = hosts.host[r], output = n;
  Schedule s{r, n, n + 1, {}, {}};
  for (int peer : hosts.ranks[home]) {
    if (peer != r) s.send_joined(peer, blocks(represented(hosts, peer)));
  }
  const std::vector<int> mine = represented(hosts, r);
  std::vector<int> sums;
  for (int block : mine) {
    sums.push_back(block == r ? output : s.add_scratch(block));
    s.copy({sums.back()}, {block});
  }
  for (int peer : hosts.ranks[home]) {
    if (peer != r) s.recv_reduce_joined(peer, blocks(sums));
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] != r) s.send(mine[i], {sums[i]});
  }
  for (int i = 1; i < hosts.count(); ++i) {
    s.recv_reduce(stand_in(hosts, r, wrap(home - i, hosts.count())), {output});
  }
  return s;
}

}  // namespace ringwood

// Hierarchical all-to-all: the blocks of a host's ranks for one rank on another host leave
// as one bundle.
//
//   all_to_all   1 round inside, of a message of n/k blocks to each peer; 1 across, of bundles of k
//                blocks, k being the ranks of the sender's host; scratch for (n-k) blocks there and
//                back
//   cost         alpha + (n-k)/k (post + k B beta) across, (k-1) (post + n/k B beta) inside
//
// Wins for blocks so small that messages across cost more than bytes: n/k - 1 of them per rank, not
// n - k. As many bytes leave a host as with `pairwise`, but each is copied once more in the host's
// memory. A rank on another host gets its bundle from the rank with the same index on this host,
// modulo the size, so that hosts may be of unequal size, and each rail carries the traffic of its
// own index where they are not; blocks must be of one size. So a rank has n/k + k - 2 partners; a
// third phase, as in schemes that gather at a leader, is not needed. Source: Traff and
// Rougier, "MPI collectives and datatypes for hierarchical all-to-all communication" (EuroMPI
// 2014); bundles as NCCL's PXN.
//
//   2 hosts x 2 ranks    inside   0 <-> 1: for each other, and 0's for 3, 1's for 2
//                        across   0 -> 2: from 0 and 1      1 -> 3: from 0 and 1
#include "collectives/algorithms/hosts.h"

namespace ringwood {

Schedule hierarchical_all_to_all(const Where& where) {
  const int r = where.rank, n = where.n;
  const Hosts hosts = hosts_of(where);
  const int home = hosts.host[r], size = hosts.size(home);
  const std::vector<int>& local = hosts.ranks[home];
  Schedule s{r, n, 2 * n, {}, {}};
  // The ranks on other hosts, from the next host on, so that no rank is the first peer
  // of all others.
  std::vector<int> far;
  for (int i = 1; i < hosts.count(); ++i)
    for (const int q : hosts.ranks[wrap(home + i, hosts.count())]) far.push_back(q);
  const auto server = [&](int h, int q) { return hosts.ranks[h][hosts.index[q] % hosts.size(h)]; };
  const auto room = [&](int count) {
    const Span span{2 * n + static_cast<int>(s.scratch.size()), count};
    for (int i = 0; i < count; ++i) s.add_scratch(0);
    return span;
  };
  s.copy({n + r}, {r});
  std::vector<int> mine;  // those that get their bundle from here
  std::vector<Span> bundles;
  for (const int q : far) {
    if (server(home, q) != r) continue;
    mine.push_back(q);
    bundles.push_back(room(size));
  }
  for (const int peer : local) {
    if (peer == r) continue;
    std::vector<Span> out = {{peer}};
    for (const int q : far)
      if (server(home, q) == peer) out.push_back({q});
    s.send_joined(peer, out);
  }
  for (const int peer : local) {
    if (peer == r) continue;
    std::vector<Span> in = {{n + peer}};
    for (const Span bundle : bundles) in.push_back({bundle.first + hosts.index[peer]});
    s.recv_joined(peer, in);
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    s.copy({bundles[i].first + hosts.index[r]}, {mine[i]});
    s.send(mine[i], bundles[i]);
  }
  for (int i = 1; i < hosts.count(); ++i) {
    const int h = wrap(home - i, hosts.count());
    const Span bundle = room(hosts.size(h));
    s.recv(server(h, r), bundle);
    for (int j = 0; j < bundle.count; ++j) s.copy({n + hosts.ranks[h][j]}, {bundle.first + j});
  }
  return s;
}

}  // namespace ringwood

// Linear: the root exchanges with every rank directly.
//
//   gather, scatter   1 round; (n-1) B bytes through the root's links, which no algorithm can
//                     save, and B bytes elsewhere. Blocks may differ in size and only the root
//                     knows them all, so nothing can be relayed.
//   broadcast         1 round; (n-1) S bytes from the root. Wins in shared memory, where all read
//                     one copy, and for tiny messages among few ranks.
//   reduce            1 round, in rank order: rank_order.cc
//   cost              alpha + (n-1) B beta at the root
//
// Source: textbook.
//
//   gather   1, 2, 3 --> root        scatter, broadcast   root --> 1, 2, 3
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule linear_gather(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  if (r != root) s.send(root, {r});
  for (int i = 1; r == root && i < n; ++i) s.recv(wrap(root + i, n), {wrap(root + i, n)});
  return s;
}

Schedule linear_scatter(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const int output = n;
  if (r != root) s.recv(root, {output});
  for (int i = 1; r == root && i < n; ++i) s.send(wrap(root + i, n), {wrap(root + i, n)});
  if (r == root) s.copy({output}, {root});
  return s;
}

Schedule linear_broadcast(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  if (r != root) s.recv(root, {0});
  for (int i = 1; r == root && i < n; ++i) s.send(wrap(root + i, n), {0});
  return s;
}

}  // namespace ringwood

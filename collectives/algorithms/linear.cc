// Linear: the root talks to every rank directly.
//
// 1 round; (n-1) B bytes through the root's links, which no algorithm can save, and B bytes
// elsewhere. Blocks may differ in size and only the root knows them all, so nothing can be relayed.
// Source: textbook.
//
//   gather   1, 2, 3 --> root        scatter   root --> 1, 2, 3
#include "collectives/algorithms.h"

namespace ringwood {

Schedule linear_gather(const Where& where) {
  const auto [r, n, root] = where;
  Schedule s{r, n, n, {}, {}};
  if (r != root) s.send(root, {r});
  for (int i = 1; r == root && i < n; ++i) s.recv(wrap(root + i, n), {wrap(root + i, n)});
  return s;
}

Schedule linear_scatter(const Where& where) {
  const auto [r, n, root] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const int output = n;
  if (r != root) s.recv(root, {output});
  for (int i = 1; r == root && i < n; ++i) s.send(wrap(root + i, n), {wrap(root + i, n)});
  if (r == root) s.copy({output}, {root});
  return s;
}

}  // namespace ringwood

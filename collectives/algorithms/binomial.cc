// Binomial tree: in every round each rank that has the data gives it to one that has not.
//
//   broadcast  ceil(log2 n) rounds; the root sends S ceil(log2 n) bytes.
//   reduce     the same backwards; S bytes sent per rank, the root receives S ceil(log2 n).
//
// Wins for small messages; for large ones the root's link is the limit and `chain` is faster.
// Source: textbook; MPICH and Open MPI use it for short messages.
//
// With v = rank - root modulo n, the parent of v is v without its lowest one bit, and the children
// are v + 1, v + 2, v + 4 ... below that bit. n = 8:
//
//   0 --+-- 1
//       +-- 2 ---- 3
//       +-- 4 --+- 5          broadcast: far children first, their subtrees are deeper
//               +- 6 --- 7    reduce: near children first, their sums are complete earlier
#include "collectives/algorithms.h"

namespace ringwood {
namespace {

// Where the subtree of v ends: v's lowest one bit, or the first power of two >= n for the root.
int reach(int v, int n) {
  int bit = 1;
  while (bit < n && !(v & bit)) bit *= 2;
  return bit;
}

}  // namespace

Schedule binomial_broadcast(const Where& where) {
  const auto [r, n, root, host] = where;
  Schedule s{r, n, 1, {}, {}};
  const int v = wrap(r - root, n), top = reach(v, n);
  if (v != 0) s.recv(wrap(v - top + root, n), {0});
  for (int bit = top / 2; bit > 0; bit /= 2) {
    if (v + bit < n) s.send(wrap(v + bit + root, n), {0});
  }
  return s;
}

// The buffers of all but the root are read only, so the sums of inner ranks grow in scratch.
Schedule binomial_reduce(const Where& where) {
  const auto [r, n, root, host] = where;
  Schedule s{r, n, 1, {}, {}};
  const int v = wrap(r - root, n), top = reach(v, n);
  int sum = 0;
  if (v != 0 && top > 1 && v + 1 < n) {
    sum = s.add_scratch(0);
    s.copy({sum}, {0});
  }
  for (int bit = 1; bit < top; bit *= 2) {
    if (v + bit < n) s.recv_reduce(wrap(v + bit + root, n), {sum});
  }
  if (v != 0) s.send(wrap(v - top + root, n), {sum});
  return s;
}

}  // namespace ringwood

// Binomial tree: in every round each rank that has the data sends it to one that has not.
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
#include "collectives/algorithms/tree.h"

namespace ringwood {

Schedule binomial_broadcast(const Where& where) {
  return tree_broadcast(where, knomial_place(where, 2));
}

Schedule binomial_reduce(const Where& where) { return tree_reduce(where, knomial_place(where, 2)); }

}  // namespace ringwood

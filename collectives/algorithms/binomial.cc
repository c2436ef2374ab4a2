// Binomial tree: in every round each rank that has the data sends it to one that has not.
//
//   broadcast  L = ceil(log2 n) rounds; the root sends S L bytes.
//   reduce     the same backwards; S bytes sent per rank, the root receives S L.
//
// Wins for small messages; for large ones the root's link is the limit and `chain` is faster. A
// textbook's L (alpha + S beta) is that of ranks which send to one child after the other. Here all
// sends are posted at once and share the rank's port, so that it is L alpha + L (L + 1) / 2 S beta.
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

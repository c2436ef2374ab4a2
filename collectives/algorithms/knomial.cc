// k-nomial tree, radix 4: in every round each rank that has the data sends it to three
// that have not.
//
//   broadcast   ceil(log4 n) rounds; the root sends 3 S ceil(log4 n) bytes at most
//   reduce      the same backwards
//   cost        log4 n (alpha + 3 S beta), against log2 n (alpha + S beta) of the binomial tree
//
// Half the rounds for 1.5 times the bytes at the root: wins for small messages on links that carry
// several at once, loses to `binomial` as soon as S beta counts. Source: textbook; UCC and MPICH
// call it k-nomial.
//
//   n = 16, root 0     round 0   0 -> 4, 8, 12
//                      round 1   0 -> 1, 2, 3   4 -> 5, 6, 7   8 -> 9, 10, 11   12 -> 13, 14, 15
#include "collectives/algorithms/tree.h"

namespace ringwood {

Schedule knomial_broadcast(const Where& where) {
  return tree_broadcast(where, knomial_place(where, 4));
}

Schedule knomial_reduce(const Where& where) { return tree_reduce(where, knomial_place(where, 4)); }

}  // namespace ringwood

// Swing: a butterfly over short distances: peers at 1, 1, 3, 5, 11, ... to alternating sides, where
// those of recursive doubling are at 1, 2, 4, 8, 16.
//
//   swing           2 log2 n rounds, 2 (n-1)/n S bytes per rank, half of them to the neighbour
//                   cost 2 log2 n alpha + 2 (n-1)/n S beta + (n-1)/n S gamma
//   swing_latency   log2 n rounds, S log2 n bytes
//                   cost log2 n (alpha + S beta + S gamma)
//
// In round s even ranks pair with the one rho(s) to the right, odd ranks with the one rho(s) to the
// left, rho(s) = (1 - (-2)^(s+1)) / 3. The distance grows as 2^(s+1)/3 and the largest messages go
// the shortest way, so on rings, tori and shared uplinks with neighbours numbered in order fewer
// bytes share a link; on a full switch it equals halving_doubling and recursive_doubling. For
// powers of two.
//
// swing_latency takes the rounds from the far end, as the Bine butterfly does. Near end first,
// ranks that meet late have added the same operands in different orders, and the results' bits
// would differ between ranks (the verifier refutes it from n = 8 on).
//
// Source: De Sensi, Bonato, Saam and Hoefler, "Swing: Short-cutting Rings for Higher
// Bandwidth Allreduce" (NSDI 2024). The paper's extension to other even n sends chunks one by
// one and is not used.
//
//   n = 8   s = 0, rho = 1    0 <-> 1   2 <-> 3   4 <-> 5   6 <-> 7
//           s = 1, rho = -1   0 <-> 7   1 <-> 2   3 <-> 4   5 <-> 6
//           s = 2, rho = 3    0 <-> 3   2 <-> 5   4 <-> 7   6 <-> 1
#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/butterfly.h"

namespace ringwood {
namespace {

int swing_peer(int rank, int round, int n) {
  int rho = 1;
  for (int s = 1; s <= round; ++s) rho = 1 - 2 * rho;
  return wrap(rank % 2 == 0 ? rank + rho : rank - rho, n);
}

int far_first(int rank, int round, int n) {
  int last = 0;
  while (2 << last < n) ++last;
  return swing_peer(rank, last - round, n);
}

}  // namespace

Schedule swing_all_reduce(const Where& where) {
  Schedule s{where.rank, where.n, where.n, {}, {}};
  halve_and_double(s, swing_peer);
  return s;
}

Schedule swing_latency_all_reduce(const Where& where) {
  Schedule s{where.rank, where.n, 1, {}, {}};
  swap_all(s, where.n, far_first);
  return s;
}

}  // namespace ringwood

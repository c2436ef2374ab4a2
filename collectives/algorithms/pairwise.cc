// Pairwise exchange: in round i rank r sends to r+i and receives from r-i, so that each rank is the
// target of exactly one other in every round.
//
// n-1 exchanges of one block, none depending on another: all are posted at once and the order only
// spreads them. (n-1) B bytes per rank, the least possible; wins for all but tiny blocks (where
// Bruck's log2(n) rounds would send fewer messages). Source: MPICH and Open MPI, for long messages.
//
//   n = 4   round 1   0 -> 1 -> 2 -> 3 -> 0
//           round 2   0 <-> 2   1 <-> 3
//           round 3   0 <- 1 <- 2 <- 3 <- 0
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule pairwise_all_to_all(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 2 * n, {}, {}};
  for (int i = 1; i < n; ++i) {
    s.send(wrap(r + i, n), {wrap(r + i, n)});
    s.recv(wrap(r - i, n), {n + wrap(r - i, n)});
  }
  s.copy({n + r}, {r});
  return s;
}

}  // namespace ringwood

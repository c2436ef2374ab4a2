// Recursive doubling: in round k each rank swaps all it has summed so far with the rank 2^k away.
//
//   all_reduce   log2 n rounds, S log2 n bytes per rank; n not a power of two: 2 rounds more
//   cost         log2 n (alpha + S beta + S gamma)
//
// Wins for small messages from about 8 ranks up, where one_shot's n-1 messages cost more than log2
// n rounds; loses as soon as S beta matters. Ranks beyond the largest power of two send their
// operand to a partner first and receive the result last. Both sides of a swap add the same two
// numbers, so all end with the same bits. Source: textbook; MPICH, Thakur, Rabenseifner and Gropp,
// "Optimization of collective communication operations in MPICH" (2005).
//
//   n = 6   fold    0 <- 4   1 <- 5
//           k = 0   0 <-> 1    2 <-> 3
//           k = 1   0 <-> 2    1 <-> 3
//           unfold  0 -> 4   1 -> 5
#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/butterfly.h"

namespace ringwood {

Schedule recursive_doubling_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  int even = 1;  // the largest power of two
  while (2 * even <= n) even *= 2;
  if (r >= even) {
    s.send(r - even, {0});
    s.recv(r - even, {0});
    return s;
  }
  if (r + even < n) s.recv_reduce(r + even, {0});
  swap_all(s, even, [](int rank, int round, int) { return rank ^ 1 << round; });
  if (r + even < n) s.send(r + even, {0});
  return s;
}

}  // namespace ringwood

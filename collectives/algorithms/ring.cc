// Ring: every rank exchanges with its two neighbours only, in rounds that keep every link busy.
//
//   all_reduce      2 (n-1) rounds, 2 (n-1)/n S bytes per rank, the least an all-reduce can send
//   all_gather      n-1 rounds, (n-1) B bytes
//   reduce_scatter  n-1 rounds, (n-1) B bytes, sums in scratch because the input is read only
//
// Wins for large messages, where neighbours are near and the far links are shared; loses for small
// ones to its n-1 latencies. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
// for clusters of workstations" (2009); Gloo, Horovod and NCCL made it the standard.
//
// n = 4, all_reduce; [c] = what a rank sends to the next one. Round by round the sum of chunk c
// starts at rank c, grows on its way, is complete at rank c-1, and goes round once more from there:
//
//   rank      0     1     2     3
//   round 0  [0]   [1]   [2]   [3]    own operand
//   round 1  [3]   [0]   [1]   [2]    sum of two
//   round 2  [2]   [3]   [0]   [1]    sum of three; its receiver completes it
//   round 3  [1]   [2]   [3]   [0]    complete
//   round 4  [0]   [1]   [2]   [3]    complete
//   round 5  [3]   [0]   [1]   [2]    complete
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule ring_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  const int next = wrap(r + 1, n), previous = wrap(r - 1, n);
  for (int i = 0; i < n - 1; ++i) {
    s.send(next, {wrap(r - i, n)});
    s.recv_reduce(previous, {wrap(r - i - 1, n)});
  }
  for (int i = 0; i < n - 1; ++i) {
    s.send(next, {wrap(r - i + 1, n)});
    s.recv(previous, {wrap(r - i, n)});
  }
  return s;
}

Schedule ring_all_gather(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  const int next = wrap(r + 1, n), previous = wrap(r - 1, n);
  for (int i = 0; i < n - 1; ++i) {
    s.send(next, {wrap(r - i, n)});
    s.recv(previous, {wrap(r - i - 1, n)});
  }
  return s;
}

// The sum of block c starts at rank c+1 and ends at rank c. Three slots in turn: one is being sent,
// one received into, one prepared with the rank's own operand for the next round.
Schedule ring_reduce_scatter(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const int next = wrap(r + 1, n), previous = wrap(r - 1, n), output = n;
  for (int i = 0; i < std::min(n - 2, 3); ++i) s.add_scratch(0);
  int partial = wrap(r - 1, n);
  for (int i = 0; i < n - 1; ++i) {
    s.send(next, {partial});
    partial = i == n - 2 ? output : n + 1 + i % 3;
    s.copy({partial}, {wrap(r - i - 2, n)});
    s.recv_reduce(previous, {partial});
  }
  if (n == 1) s.copy({output}, {0});
  return s;
}

}  // namespace ringwood

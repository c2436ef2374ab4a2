// Direct: every rank is responsible for one chunk and exchanges with all others at once.
//
//   all_reduce      2 rounds, 2 (n-1)/n S bytes per rank, no more than a ring's
//   reduce_scatter  1 round, (n-1) B bytes: its first half, from a read-only input
//   all_gather      1 round, (n-1) B bytes: its second half
//
// Wins wherever each pair has its own path (shared memory, NVLink, a full switch) and n is
// moderate; in shared memory the two rounds fuse into one pass over the data. Loses where many
// pairs share one slow uplink. Source: the reduce-scatter/all-gather "two-shot" of MSCCL++ and
// DeepSpeed's shared-memory all-reduce.
//
// n = 3, all_reduce; the owner of chunk c is rank c:
//
//   rank   0: a b c        0: A b c         0: A B C
//          1: a b c   ->   1: a B c    ->   1: A B C
//          2: a b c        2: a b C         2: A B C
//            round 1: column c to rank c    round 2: the sum from rank c to all
//
// Rank r begins with peer r+1, so that no rank is the first peer of all others; its first arrival
// is that of r-1.
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule direct_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), {wrap(r + i, n)});
  for (int i = 1; i < n; ++i) s.recv_reduce(wrap(r - i, n), {r});
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), {r});
  for (int i = 1; i < n; ++i) s.recv(wrap(r - i, n), {wrap(r - i, n)});
  return s;
}

Schedule direct_all_gather(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), {r});
  for (int i = 1; i < n; ++i) s.recv(wrap(r - i, n), {wrap(r - i, n)});
  return s;
}

Schedule direct_reduce_scatter(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const int output = n;
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), {wrap(r + i, n)});
  s.copy({output}, {r});
  for (int i = 1; i < n; ++i) s.recv_reduce(wrap(r - i, n), {output});
  return s;
}

}  // namespace ringwood

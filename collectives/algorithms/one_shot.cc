// One shot: every rank sends its whole operand to every other and adds all n of them itself.
//
// 1 round, (n-1) S bytes per rank in each direction. Wins for tiny messages, where only the one
// latency matters (up to some 8-32 KiB in shared memory); beyond, `direct` sends n/2 times less.
// Source: MSCCL++ "all pairs", the one-shot all-reduce of custom kernels in inference engines.
//
// All ranks must end with identical bits although each adds for itself, so all add in the same
// order: by rank. The sum is kept in scratch, because the rank's own operand is still being sent;
// only the last step writes the user's chunk. Addition commutes, so ranks 0 and 1 may both begin
// with the other's operand:
//
//   n = 4   rank 0   A = x1   A += x0   A += x2   A += x3   x0 = A
//           rank 1   A = x0   A += x1   A += x2   A += x3   x1 = A
//           rank 2   A = x0   A += x1   A += x2   A += x3   x2 = A
//           rank 3   A = x0   A += x1   A += x2   A += x3   x3 = A
//
// The last rank must not save the copy by x3 += A: 16-bit floats are rounded where an
// accumulation ends (plan.h), and it would round twice where the others round once.
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule one_shot_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  if (n == 2) return exchange_all_reduce(where);
  Schedule s{r, n, 1, {}, {}};
  if (n == 1) return s;
  const Span own{0}, sum{s.add_scratch(0)};
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), own);
  const int first = r == 0 ? 1 : 0;
  s.recv(first, sum);
  if (r < 2) s.reduce(sum, own);
  for (int peer = first + 1; peer < n; ++peer) {
    if (peer == r && r >= 2) s.reduce(sum, own);
    if (peer != r) s.recv_reduce(peer, sum);
  }
  s.copy(own, sum);
  return s;
}

}  // namespace ringwood

// Dissemination barrier: in round k rank r tells r + 2^k that it, and all ranks it has heard of,
// have arrived.
//
// ceil(log2 n) rounds of one byte; after round k each rank has heard of the 2^(k+1) ranks up to
// itself. No root, no second phase. Source: Hensgen, Finkel and Manber, "Two algorithms for barrier
// synchronization" (1988).
//
//   n = 8   round 0   r -> r+1   heard of r-1, r
//           round 1   r -> r+2   heard of r-3 .. r
//           round 2   r -> r+4   heard of r-7 .. r = all
//
// What matters is order, not content: `told` may be sent again only after the last message has
// been copied into it, and the copy waits for the receive and for the send before it. Receiving
// into `told` itself would make every send wait for a receive that is not posted yet, a deadlock
// without buffers.
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule dissemination_barrier(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 0, {}, {}};
  if (n == 1) return s;
  const int told = s.add_scratch(0), heard = s.add_scratch(0);
  for (int distance = 1; distance < n; distance *= 2) {
    s.send(wrap(r + distance, n), {told});
    s.recv(wrap(r - distance, n), {heard});
    if (2 * distance < n) s.copy({told}, {heard});
  }
  return s;
}

}  // namespace ringwood

// Chain: the ranks one behind the other, from the root; each forwards what it receives.
//
// n-1 rounds, S bytes per rank. With L segments the pieces follow one another, so the time is
// about (n-2+L)/L times that of one message and no link carries any data twice: wins for large
// messages, loses for small ones to `binomial`. Source: the pipelined chain of Open MPI and NCCL's
// ring broadcast.
//
//   broadcast   root --> root+1 --> root+2 --> ... --> root-1
//   reduce      root <-- root+1 <-- root+2 <-- ... <-- root-1      inner ranks add in scratch
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule chain_broadcast(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  const int v = wrap(r - root, n);
  if (v > 0) s.recv(wrap(r - 1, n), {0});
  if (v < n - 1) s.send(wrap(r + 1, n), {0});
  return s;
}

// The buffers of all but the root are read only.
Schedule chain_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  const int v = wrap(r - root, n);
  const bool inner = v > 0 && v < n - 1;
  const int sum = inner ? s.add_scratch(0) : 0;
  if (inner) s.copy({sum}, {0});
  if (v < n - 1) s.recv_reduce(wrap(r + 1, n), {sum});
  if (v > 0) s.send(wrap(r - 1, n), {sum});
  return s;
}

}  // namespace ringwood

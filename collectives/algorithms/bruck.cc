// Bruck: with every round each rank has twice as many blocks, its own and those after it.
//
//   all_gather   ceil(log2 n) rounds, (n-1) B bytes per rank
//   cost         log2 n alpha + (n-1) B beta
//
// Any n, no waste. Wins for small blocks from about 8 ranks up, where `direct` sends n-1 messages
// at once; loses to `ring` for large ones, because in the last round half of all bytes go half way
// around the ring (`pat` sends them near). Blocks are at their final place from the start, so there
// is no final rotation. Source: Bruck et al., "Efficient algorithms for all-to-all communications
// in multiport message-passing systems" (1997).
//
//   n = 5, rank 0 has   [0]   round 0: from 1 [1]   round 1: from 2 [2:4]   round 2: from 4 [4]
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule bruck_all_gather(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  // `count` blocks from `first` on, round the end of the buffer: one span or two.
  auto spans = [n = n](int first, int count) {
    const int before_end = std::min(count, n - first);
    std::vector<Span> result{{first, before_end}};
    if (count > before_end) result.push_back({0, count - before_end});
    return result;
  };
  for (int have = 1; have < n; have *= 2) {
    const int count = std::min(have, n - have), from = wrap(r + have, n);
    s.send_joined(wrap(r - have, n), spans(r, count));
    s.recv_joined(from, spans(from, count));
  }
  return s;
}

}  // namespace ringwood

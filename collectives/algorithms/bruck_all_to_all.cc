// Bruck's all-to-all: in round k every block whose distance has bit k set moves on by 2^k ranks,
// all of them in one message.
//
//   all_to_all   ceil(log2 n) rounds of about n/2 blocks each; n/2 log2(n) B bytes per rank
//   cost         log2 n alpha + n/2 log2(n) (beta + 2 copies) B
//
// Wins for small blocks and many ranks, where `pairwise` posts n-1 messages; it sends log2(n) / 2
// times as many bytes. Blocks are relayed by other ranks, so they must be of one size. They are
// packed, so that a round is one message; copies go from the input into the first message and from
// the last into the output, without the rotations of the original. Source: Bruck et al., "Efficient
// algorithms for all-to-all communications in multiport message-passing systems" (1997).
//
//   n = 4, from rank 0    round 0, to 1:  blocks for 1 and 3       round 1, to 2:  for 2; and, come
//   by the way they go    (1 = 1, 3 = 1 + 2)                       from 3, for 1 (3's way of 2)
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule bruck_all_to_all(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 2 * n, {}, {}};
  // By distance: where the block with this total distance is. Blocks in transit come
  // from elsewhere.
  std::vector<int> at;
  for (int way = 0; way < n; ++way) at.push_back(wrap(r + way, n));
  size_t moves = 0;
  for (int hop = 1; hop < n; hop *= 2)
    moves += static_cast<size_t>(n / (2 * hop) * hop + std::max(0, n % (2 * hop) - hop));
  s.steps.reserve(moves + static_cast<size_t>(n) + 64);  // and log2(n) messages, both ways
  s.scratch.reserve(2 * moves);
  s.copy({n + r}, {r});
  for (int hop = 1; hop < n; hop *= 2) {
    const auto goes = [&](int way) { return way / hop % 2 == 1; };
    Span out{2 * n + static_cast<int>(s.scratch.size()), 0};
    for (int way = hop; way < n; ++way) out.count += goes(way);
    const Span in{out.first + out.count, out.count};
    for (int i = 0; i < 2 * out.count; ++i) s.add_scratch(0);
    for (int way = hop, i = 0; way < n; ++way)
      if (goes(way)) s.copy({out.first + i++}, {at[way]});
    s.send(wrap(r + hop, n), out);
    s.recv(wrap(r - hop, n), in);
    for (int way = hop, i = 0; way < n; ++way)
      if (goes(way)) at[way] = in.first + i++;
  }
  for (int way = 1; way < n; ++way) s.copy({n + wrap(r - way, n)}, {at[way]});
  return s;
}

}  // namespace ringwood

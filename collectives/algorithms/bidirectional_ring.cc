// Bidirectional ring: two rings at once, one in each direction, each for half of the buffer.
//
//   all_reduce      2 (n-1) rounds, 2 (n-1)/n S bytes per rank, half to each neighbour
//
// Wins over `ring` for large messages where a rank can send to both neighbours at once and the two
// messages do not share a bottleneck: links that are full duplex and end to end, a port for each
// neighbour. Where all of a rank's bytes leave through one port it has the ring's bytes and rounds,
// in twice as many messages. Two ranks have one neighbour, so it is for three and more. Source: the
// two-directional rings of Blue Gene/L's and TPU pods' torus networks.
//
// n = 4; chunks 0 to 3 go up, 4 to 7 go down; what each rank sends in one round:
//
//              rank 0    rank 1    rank 2    rank 3
//   to r+1       [0]       [1]       [2]       [3]
//   to r-1       [7]       [6]       [5]       [4]
#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"

namespace ringwood {

Schedule bidirectional_ring_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  std::vector<int> backwards;
  for (int rank = n - 1; rank >= 0; --rank) backwards.push_back(rank);
  const Schedule up = ring_all_reduce({r, n}), down = ring_all_reduce({n - 1 - r, n});
  return then(within(0, 2 * n, up), within(n, 2 * n, on(backwards, n, down)));
}

}  // namespace ringwood

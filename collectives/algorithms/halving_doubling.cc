// Halving and doubling, for any n: the group splits in two, each half takes over half of the
// chunks, and so on down to one rank and one chunk; then the same backwards with the sums.
//
// 2 ceil(log2 n) rounds, about 2 (n-1)/n S bytes per rank. Wins in the middle sizes: as few bytes
// as a ring with far fewer rounds; loses to the ring for large messages where far links are shared.
// Source: Rabenseifner (2004) for powers of two. For other n the usual algorithm first folds the
// extra ranks in, at two more rounds of S bytes each. Here the halves may be unequal instead: the
// odd rank of the left half sends its share to the first of the right half, which costs no round
// and at most S/2 bytes, and never the same rank at two levels.
//
// n = 5, the exchanges while halving ([a:b) = the chunks that rank group a..b-1 is
// responsible for):
//
//   [0:5)    0 <-> 3    1 <-> 4    2 --> 3      left [0:3), right [3:5)
//   [0:3)    0 <-> 2    1 --> 2                 left [0:2), right [2:3)       [3:5)   3 <-> 4
//   [0:2)    0 <-> 1
#include "collectives/algorithms/algorithms.h"

namespace ringwood {
namespace {

// One split of ranks and chunks [low, high) as rank r sees it: its own half, the other half, the
// peer to which it sends the other half's chunks, and the peers from which it receives its own (at
// most two, -1 = none).
struct Split {
  Span own, other;
  int gives_to;
  int gets_from[2];
};

Split split(int r, int low, int high) {
  const int middle = low + (high - low + 1) / 2;
  const bool odd = (high - low) % 2 != 0;
  const Span left{low, middle - low}, right{middle, high - middle};
  if (r >= middle) {
    const int partner = r - middle + low;
    return {right, left, partner, {partner, odd && r == middle ? middle - 1 : -1}};
  }
  if (odd && r == middle - 1) return {left, right, middle, {-1, -1}};
  return {left, right, r - low + middle, {r - low + middle, -1}};
}

}  // namespace

Schedule halving_doubling_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  std::vector<Split> levels;
  for (int low = 0, high = n; high - low > 1;) {
    const Split level = split(r, low, high);
    s.send(level.gives_to, level.other);
    for (int peer : level.gets_from) {
      if (peer >= 0) s.recv_reduce(peer, level.own);
    }
    low = level.own.first;
    high = low + level.own.count;
    levels.push_back(level);
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    for (int peer : level->gets_from) {
      if (peer >= 0) s.send(peer, level->own);
    }
    s.recv(level->gives_to, level->other);
  }
  return s;
}

}  // namespace ringwood

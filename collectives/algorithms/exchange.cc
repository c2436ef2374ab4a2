// Exchange: two ranks send each other everything, and both add.
//
//   all_reduce   n = 2 only: 1 round, S bytes, S/2 additions more per rank than the least
//   cost         alpha + S beta + S gamma, where `direct` takes 2 alpha + S beta + S/2 gamma
//
// A pair cannot send fewer bytes: 2 (n-1)/n S is S. So it saves a round at no cost wherever adding
// is faster than the network; hierarchical.cc uses it between two hosts. Addition commutes, so both
// end with the same bits. Source: one round of recursive doubling.
//
//   rank 0   x0  --x0-->  <--x1--   x0 += x1
//   rank 1   x1  --x1-->  <--x0--   x1 += x0
#include "collectives/algorithms/algorithms.h"

namespace ringwood {

Schedule exchange_all_reduce(const Where& where) {
  Schedule s{where.rank, where.n, 1, {}, {}};
  const int peer = 1 - where.rank, other = s.add_scratch(0);
  s.send(peer, {0});
  s.recv(peer, {other});
  s.reduce({0}, {other});
  return s;
}

}  // namespace ringwood

// Recursive multiplying: n = f1 f2 ... fk; in round i each rank exchanges all that it has summed so
// far with the f_i - 1 ranks that differ from it in digit i only (schedule/factors.h).
//
//   all_reduce   k rounds, S (f1 - 1 + ... + fk - 1) bytes per rank, in each direction
//   cost         k alpha + (S beta + S gamma) (f1 - 1 + ... + fk - 1)
//
// For small messages of many ranks: with factors of 4 half as many rounds as recursive_doubling,
// for 1.5 times the messages, which wins where a round costs more than a message, as in shared
// memory. (Where very many ranks share a core, `hierarchical_leaders` has fewer rounds still.)
// Factors are 4 where possible, then the primes; a prime n is `one_shot`. Source: Ruefenacht, Bull
// and Booth, "Generalisation of recursive doubling for AllReduce" (2017).
//
// All ranks must end with identical bits, so the ranks of a round add in the same order, by digit,
// as those of one_shot do; the sum is kept in scratch, because what was summed before is still
// being sent.
//
//   n = 8 = 4 * 2   round 0   0 1 2 3 | 4 5 6 7
//                   round 1   0 4 | 1 5 | 2 6 | 3 7
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/factors.h"

namespace ringwood {
namespace {

// `sum` becomes `own` of all digits, added in their order.
void exchange(Schedule& s, const DigitRound& round, Span own, Span sum) {
  for (int i = 1; i < round.factor; ++i) s.send(round.after(i), own);
  const int first = round.digit == 0 ? 1 : 0;
  s.recv(round.rank(first), sum);
  // Addition commutes: digits 0 and 1 may both begin with the other's operand.
  if (round.digit < 2) s.reduce(sum, own);
  for (int k = first + 1; k < round.factor; ++k) {
    if (k != round.digit)
      s.recv_reduce(round.rank(k), sum);
    else if (k >= 2)
      s.reduce(sum, own);
  }
}

}  // namespace

Schedule recursive_multiplying_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  Span sum{0};
  for (const DigitRound& round : digit_rounds(r, small_factors(n))) {
    const Span own = std::exchange(sum, Span{s.add_scratch(0)});
    exchange(s, round, own, sum);
  }
  if (n > 1) s.copy({0}, sum);
  return s;
}

}  // namespace ringwood

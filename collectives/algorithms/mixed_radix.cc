// Mixed radix: n = f1 f2 ... fk; in round i each rank exchanges directly with the f_i - 1 ranks
// that differ from it in digit i only.
//
//   all_reduce   2 k rounds, 2 (n-1)/n S bytes per rank, exactly, for every n
//   cost         2 k alpha + 2 (n-1)/n S beta + (n-1)/n S gamma
//
// As balanced as a ring, with the fewest rounds of all balanced algorithms: halving_doubling takes
// 2 ceil(log2 n) rounds and is balanced only in the mean unless n is a power of two. Wins in the
// middle sizes wherever a rank can send several messages at once; a prime n is `direct`. Factors
// are 4 where possible (one round instead of two), then the primes. The first rounds move the most
// and go to the nearest ranks. Source: Ruefenacht, Bull and Booth, "Generalisation of recursive
// doubling for allreduce" (2017), here with halving.
//
// n = 6 = 2 * 3, the chunks that a rank is responsible for:
//
//            who exchanges                rank   0      1      2      3      4      5
//   round 0  0 1 | 2 3 | 4 5                   [0:3)  [3:6)  [0:3)  [3:6)  [0:3)  [3:6)
//   round 1  0 2 4 | 1 3 5                      [0]    [3]    [1]    [4]    [2]    [5]
//   then the same backwards with the sums
#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/factors.h"

namespace ringwood {

bool has_several_factors(int n) { return small_factors(n).size() > 1; }

Schedule mixed_radix_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  struct Round : DigitRound {
    Span chunks;  // before the round; each digit takes over an equal part of it
    Span part(int k) const {
      return {chunks.first + k * (chunks.count / factor), chunks.count / factor};
    }
  };
  std::vector<Round> rounds;
  Span chunks{0, n};
  for (const DigitRound& round : digit_rounds(r, small_factors(n))) {
    const Round& now = rounds.emplace_back(Round{round, chunks});
    const int f = now.factor;
    for (int i = 1; i < f; ++i) s.send(now.after(i), now.part(wrap(now.digit + i, f)));
    chunks = now.part(now.digit);
    for (int i = 1; i < f; ++i) s.recv_reduce(now.before(i), chunks);
  }
  for (auto now = rounds.rbegin(); now != rounds.rend(); ++now) {
    const int f = now->factor;
    for (int i = 1; i < f; ++i) s.send(now->after(i), now->part(now->digit));
    for (int i = 1; i < f; ++i) s.recv(now->before(i), now->part(wrap(now->digit - i, f)));
  }
  return s;
}

}  // namespace ringwood

// The rounds of exchanges by digits: n = f1 f2 ... fk ranks are numbers of k digits, and in round i
// a rank exchanges with the f_i - 1 others that differ from it in digit i only. After all rounds
// each has reached all, transitively. Pure; any thread.
#pragma once

#include <utility>
#include <vector>

namespace ringwood {

// Of n: 4 where possible (one round instead of two), then 2, then the odd primes, ascending.
inline std::vector<int> small_factors(int n) {
  std::vector<int> result;
  for (const int factor : {4, 2})
    for (; n % factor == 0; n /= factor) result.push_back(factor);
  for (int factor = 3; n > 1; factor += 2)
    for (; n % factor == 0; n /= factor) result.push_back(factor);
  return result;
}

// One round of a rank: `stride` is the product of the factors before.
struct DigitRound {
  int factor, stride, digit;  // the rank's own

  DigitRound(int self, int of_round, int of_digit)
      : factor(of_round), stride(of_digit), digit(self / of_digit % of_round), self_(self) {}
  // The rank that differs by having this digit.
  int rank(int k) const { return self_ + (k - digit) * stride; }
  // 0 < i < factor: the rank whose digit is i after this one's, round and round.
  int after(int i) const { return rank((digit + i) % factor); }
  int before(int i) const { return rank((digit - i + factor) % factor); }

 private:
  int self_;
};

// The rounds of a rank of n, the factors' product.
inline std::vector<DigitRound> digit_rounds(int rank, const std::vector<int>& factors) {
  std::vector<DigitRound> rounds;
  int stride = 1;
  for (const int factor : factors)
    rounds.emplace_back(rank, factor, std::exchange(stride, stride * factor));
  return rounds;
}

}  // namespace ringwood

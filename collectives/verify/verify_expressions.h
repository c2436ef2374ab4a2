// Symbolic values: which operands were added to which.
//
// Part of the verifier. An expression is a leaf (rank, chunk) or the sum of two expressions. Sums
// are hash-consed with their operands in order, so two expressions have one id exactly if they are
// the same up to commutation of single additions, which preserves floating-point results.
// Association, which does not, is distinguished. Memory: 8 bytes for a sum and, on average, as many
// to find it again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/schedule/collective.h"

namespace ringwood {

class Expressions {
 public:
  using Id = uint32_t;
  static constexpr Id kNothing = 0;

  // Precondition: ranks * chunks fits in 31 bits.
  Expressions(int ranks, int chunks)
      : chunks_(chunks), first_sum_(1 + static_cast<Id>(ranks) * chunks) {}

  Id leaf(int rank, int chunk) const { return 1 + static_cast<Id>(rank) * chunks_ + chunk; }
  Id sum(Id a, Id b);
  // What a wire format makes of it (wire_schedule.h); idempotent. Its result must not be passed to
  // the functions below.
  Id rounded(Id a);
  // ((x0 + x1) + x2) + ..., x being `chunk` of each of the ranks. Precondition: there is one.
  Id sum_in_rank_order(RankRange ranks, int chunk);

  // Returns nothing if `id` contains `chunk` of each of the ranks exactly once and nothing else;
  // otherwise what is wrong: "lacks rank 5's chunk 1", "contains rank 5's chunk 1 twice".
  std::optional<std::string> flaw_as_sum(Id id, RankRange ranks, int chunk) const;
  // "(rank 0's chunk 1 + rank 2's chunk 1)", truncated after a few terms.
  std::string print(Id id) const;

 private:
  using Operands = std::pair<Id, Id>;  // ascending

  bool is_leaf(Id id) const { return id < first_sum_; }
  std::string print_leaf(Id id) const;

  int chunks_;
  Id first_sum_;
  // Where `of` is in known_, or where it belongs.
  size_t place_of(Operands of) const;
  void enlarge();

  std::vector<Operands> sums_;
  // A hash table with open addressing: 1 + a number in sums_, 0 = free. At most three quarters are
  // in use; a power of two.
  std::vector<uint32_t> known_;
};

}  // namespace ringwood

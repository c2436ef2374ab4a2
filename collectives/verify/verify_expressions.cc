#include "collectives/verify/verify_expressions.h"

#include <fmt/format.h>

#include <algorithm>

namespace ringwood {
namespace {

constexpr int kPrintedTerms = 8;

}  // namespace

Expressions::Id Expressions::sum(Id a, Id b) {
  const Operands operands = std::minmax({a, b});
  if (4 * (sums_.size() + 1) > 3 * known_.size()) enlarge();
  uint32_t& known = known_[place_of(operands)];
  if (known == 0) {
    sums_.push_back(operands);
    known = static_cast<uint32_t>(sums_.size());
  }
  return first_sum_ + known - 1;
}

size_t Expressions::place_of(Operands of) const {
  const size_t mask = known_.size() - 1;
  // Mixed so that the lowest bits, which are the place, depend on all (the end of splitmix64).
  uint64_t hash = (uint64_t{of.first} << 32 | of.second) + 0x9E3779B97F4A7C15;
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EB;
  size_t place = (hash ^ hash >> 31) & mask;
  while (known_[place] != 0 && sums_[known_[place] - 1] != of) place = (place + 1) & mask;
  return place;
}

void Expressions::enlarge() {
  const size_t size = std::max<size_t>(2 * known_.size(), 64);
  known_ = {};  // before the larger one is made
  known_.resize(size);
  for (size_t i = 0; i < sums_.size(); ++i)
    known_[place_of(sums_[i])] = static_cast<uint32_t>(i + 1);
}

// Represented as a sum with nothing, which is an operand of no other sum.
Expressions::Id Expressions::rounded(Id a) {
  const bool already = a != kNothing && !is_leaf(a) && sums_[a - first_sum_].first == kNothing;
  return already ? a : sum(kNothing, a);
}

Expressions::Id Expressions::sum_in_rank_order(RankRange ranks, int chunk) {
  Id result = leaf(ranks.first, chunk);
  for (int i = 1; i < ranks.count; ++i) result = sum(result, leaf(ranks.first + i, chunk));
  return result;
}

// A correct sum has one leaf per rank. A wrong one can have exponentially many, but the first ranks
// + 1 of them must contain a repetition or a foreign leaf, so the walk is short either way.
std::optional<std::string> Expressions::flaw_as_sum(Id id, RankRange ranks, int chunk) const {
  if (id == kNothing) return "contains nothing";
  std::vector<bool> seen(ranks.count, false);
  std::vector<Id> pending{id};
  while (!pending.empty()) {
    const Id next = pending.back();
    pending.pop_back();
    if (!is_leaf(next)) {
      const auto [a, b] = sums_[next - first_sum_];
      pending.push_back(a);
      pending.push_back(b);
      continue;
    }
    const int rank = static_cast<int>((next - 1) / chunks_);
    if (next != leaf(rank, chunk) || !ranks.contains(rank)) {
      return fmt::format("contains {}, which does not belong there", print_leaf(next));
    }
    if (seen[rank - ranks.first]) return fmt::format("contains {} twice", print_leaf(next));
    seen[rank - ranks.first] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return std::nullopt;
  return "lacks " + print_leaf(leaf(ranks.first + static_cast<int>(missing - seen.begin()), chunk));
}

std::string Expressions::print(Id id) const {
  if (id == kNothing) return "nothing";
  // An operand is printed whole or, when the terms are used up, as "...".
  int terms = 0;
  auto text = [&](auto& self, Id at) -> std::string {
    if (terms >= kPrintedTerms) return "...";
    if (is_leaf(at)) {
      ++terms;
      return print_leaf(at);
    }
    const auto [a, b] = sums_[at - first_sum_];
    const std::string left = self(self, a);
    return fmt::format("({} + {})", left, self(self, b));
  };
  return text(text, id);
}

std::string Expressions::print_leaf(Id id) const {
  return fmt::format("rank {}'s chunk {}", (id - 1) / chunks_, (id - 1) % chunks_);
}

}  // namespace ringwood

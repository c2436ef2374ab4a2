#include "collectives/tuner/choice/row_proofs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "collectives/plan/plan.h"
#include "collectives/schedule/interpret.h"

namespace ringwood {
namespace {

bool power_of_two(int x) { return std::has_single_bit(static_cast<unsigned>(x)); }

// A number of at most `most` for `x` hosts or ranks of a host.
int resembling(int x, int most) {
  if (x <= most) return x;
  const auto alike = [&](int y) { return y % 2 == x % 2 && power_of_two(y) == power_of_two(x); };
  const auto factored = [&](int y) { return has_several_factors(y) == has_several_factors(x); };
  const std::function<bool(int)> wishes[] = {
      [&](int y) { return alike(y) && factored(y) && x % y == 0; },
      [&](int y) { return alike(y) && factored(y); },
      [&](int y) { return alike(y) && x % y == 0; },
      alike,
  };
  for (const auto& wish : wishes)
    for (int y = most; y > 1; --y)
      if (wish(y)) return y;
  return std::max(1, most);
}

std::vector<Schedule> schedules_of(const AlgorithmRow& row, const Placement& on) {
  std::vector<Schedule> all;
  for (int r = 0; r < on.n; ++r)
    all.push_back(after_agreement(row.build(on.where(r)), row.collective));
  return all;
}

// Where only some links are encoded, the number of roundings of an operand depends on the root, so
// all links are assumed to be encoded there.
WireProof proof_of(const AlgorithmRow& row, const Placement& on) {
  std::vector<int> host = on.machine.hosts;
  if (has_root(row.collective)) std::iota(host.begin(), host.end(), 0);
  return prove_wire(row.collective, schedules_of(row, on), host);
}

int doublings(int from, int to) {
  int count = 0;
  for (; from < to; from *= 2) ++count;
  return count;
}

// At least the roundings among n ranks, from those of two smaller groups: constant, in proportion
// to the ranks, or with each doubling of them.
int extended(int of_a, int a, int of_b, int b, int n) {
  if (of_a == of_b || a >= b) return of_b;
  const bool affine = of_b * of_b * of_b * a >= of_a * of_a * of_a * b;
  if (affine) return (of_b * n + b - 1) / b + 2;
  const int steps = doublings(a, b);
  return of_b + doublings(b, n) * std::max(1, (of_b - of_a + steps - 1) / steps);
}

// Of every chunk how often its operands were rounded, at most: once an accumulation has ended.
struct Roundings {
  using Value = int;
  int most = 0;

  Value begin(int, int) const { return 0; }
  Value add(const Move&, Value value, Value operand) {
    const Value sum = std::max(value, operand + 1);
    most = std::max(most, sum);
    return sum;
  }
};

}  // namespace

SharedPlacement proof_sibling(Siblings& siblings, int most) {
  if (siblings.whole()->n <= most) return siblings.whole();
  constexpr int kMaxOnAHost = 8;
  const SharedPlacement& regular = siblings.regular();
  const int hosts = regular->hosts.count(), k = regular->ranks_of_a_host;
  const int ranks = resembling(k, hosts == 1 ? most : std::min(kMaxOnAHost, most / 2));
  return siblings.get(resembling(hosts, most / ranks), ranks);
}

WireProof wire_proof(const AlgorithmRow& row, Siblings& siblings) {
  const SharedPlacement larger = proof_sibling(siblings);
  if (!row.accepts(larger->where(0))) return {};
  WireProof proof = proof_of(row, *larger);
  const int n = siblings.whole()->n;
  if (larger->n == n || !proof.equal_bits) return proof;
  const SharedPlacement smaller = proof_sibling(siblings, larger->n / 8);
  const int before = row.accepts(smaller->where(0)) ? proof_of(row, *smaller).roundings : 1;
  proof.roundings = extended(before, smaller->n, proof.roundings, larger->n, n);
  return proof;
}

int sum_roundings(const std::vector<Schedule>& schedules) {
  Roundings roundings;
  execute(schedules, roundings);
  return roundings.most;
}

int sum_roundings(const AlgorithmRow& row, Siblings& siblings) {
  const auto of = [&](const SharedPlacement& on) {
    return row.accepts(on->where(0)) ? sum_roundings(schedules_of(row, *on)) : 0;
  };
  const SharedPlacement larger = proof_sibling(siblings);
  const int n = siblings.whole()->n, known = of(larger);
  if (known == 0) return kUnknownRoundings;
  if (known == 1 || larger->n == n) return known;
  const SharedPlacement smaller = proof_sibling(siblings, larger->n / 8);
  return extended(std::max(1, of(smaller)), smaller->n, known, larger->n, n);
}

}  // namespace ringwood

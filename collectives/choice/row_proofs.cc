#include "collectives/choice/row_proofs.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "collectives/plan/plan.h"
#include "collectives/schedule/interpret.h"

namespace ringwood {
namespace {

bool power_of_two(int x) { return std::has_single_bit(static_cast<unsigned>(x)); }

// A number of at most `most` for `x` hosts or ranks of a host.
int resembling(int x, int most) {
  if (x <= most) return x;
  const auto like = [&](int y) {
    return y > 1 && y % 2 == x % 2 && power_of_two(y) == power_of_two(x);
  };
  for (int y = most; y > 1; --y)
    if (like(y) && x % y == 0) return y;
  for (int y = most; y > 1; --y)
    if (like(y)) return y;
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

// Marks the chunks that hold a partial sum: one that was added to.
struct Partial {
  using Value = char;
  bool added_again = false;

  Value begin(int, int) const { return false; }
  Value add(const Move&, Value, Value operand) {
    added_again = added_again || operand;
    return true;
  }
  bool done() const { return added_again; }
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

bool adds_once(const std::vector<Schedule>& schedules) {
  Partial partial;
  execute(schedules, partial);
  return !partial.added_again;
}

bool adds_once(const AlgorithmRow& row, Siblings& siblings) {
  const SharedPlacement on = proof_sibling(siblings);
  return row.accepts(on->where(0)) && adds_once(schedules_of(row, *on));
}

}  // namespace ringwood

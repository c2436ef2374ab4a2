// Rank order: every element of the result is ((x0 + x1) + x2) + ... by rank number,
// whichever rank adds.
//
//   all_reduce       2 rounds, 2 (n-1)/n S bytes: the sums as below, then to all ranks
//   reduce           2 rounds, S bytes: the sums as below, then to the root
//   reduce_scatter   1 round, (n-1) B bytes
//   cost             those of `direct`; the owner of a chunk must add arrivals in rank order, so
//                    all wait for rank 0 first, where `direct` spreads them
//
// The reproducible rows: the bits of an element depend on the operands and their ranks, and on
// neither its place in the buffer, the sizes, the segments, the root, nor on which of these rows
// (or one_shot, linear) was chosen. All additions are one accumulation, so 16- and 8-bit floats are
// rounded once, at the end (plan.h). Source: the fixed-order "two-shot" of inference engines;
// Demmel and Nguyen discuss what it leaves out: other n, other bits.
//
// Rank c adds chunk c. Ranks 0 and 1 begin with their own operand (x1 + x0 = x0 + x1); the others
// add theirs in its turn:
//
//   n = 4   rank 0   x0  += x1  += x2  += x3
//           rank 1   x1  += x0  += x2  += x3
//           rank 2   t = x0  += x1  += x2  += x3   x2 = t
#include "collectives/algorithms/algorithms.h"

namespace ringwood {
namespace {

// sum = x0 + x1 + ..., own operand in `own`, the others received. For ranks 0 and 1 `sum` may be
// `own`.
void add_in_rank_order(Schedule& s, Span own, Span sum) {
  const bool begins = s.rank < 2;
  if (begins && sum != own) s.copy(sum, own);
  if (!begins) s.recv(0, sum);
  for (int peer = begins ? 0 : 1; peer < s.n; ++peer) {
    if (peer != s.rank) {
      s.recv_reduce(peer, sum);
    } else if (!begins) {
      s.reduce(sum, own);
    }
  }
}

void send_to_owners(Schedule& s) {
  for (int i = 1; i < s.n; ++i) {
    const int owner = wrap(s.rank + i, s.n);
    s.send(owner, {owner});
  }
}

}  // namespace

Schedule rank_order_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  const Span own{r}, sum{r < 2 ? r : s.add_scratch(r)};
  send_to_owners(s);
  add_in_rank_order(s, own, sum);
  for (int i = 1; i < n; ++i) s.send(wrap(r + i, n), sum);
  if (sum != own) s.copy(own, sum);
  for (int i = 1; i < n; ++i) s.recv(wrap(r - i, n), {wrap(r - i, n)});
  return s;
}

// The buffers of all but the root are read only.
Schedule rank_order_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  const Span own{r}, sum{n == 1 || (r < 2 && r == root) ? r : s.add_scratch(r)};
  send_to_owners(s);
  add_in_rank_order(s, own, sum);
  if (r != root) {
    s.send(root, sum);
    return s;
  }
  if (sum != own) s.copy(own, sum);
  for (int i = 1; i < n; ++i) s.recv(wrap(r - i, n), {wrap(r - i, n)});
  return s;
}

// The output may be the memory of the rank's own block, so nothing is written there before
// that was added.
Schedule rank_order_reduce_scatter(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const Span own{r}, output{n}, sum{r < 2 ? n : s.add_scratch(r)};
  send_to_owners(s);
  add_in_rank_order(s, own, sum);
  if (sum != output) s.copy(output, sum);
  return s;
}

// One round, for small messages: all operands go to the root, which adds alone.
Schedule linear_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 1, {}, {}};
  const Span own{0};
  if (r != root) {
    s.send(root, own);
    return s;
  }
  const Span sum{r < 2 ? 0 : s.add_scratch(0)};
  add_in_rank_order(s, own, sum);
  if (sum != own) s.copy(own, sum);
  return s;
}

}  // namespace ringwood

// PAT (parallel aggregated trees): every block goes down (or every sum comes up) a binomial tree of
// its own; all trees run at once, over far edges when little data is in flight, over near edges
// when much is.
//
//   all_gather       ceil(log2 n) rounds, (n-1) B bytes per rank
//   reduce_scatter   the same backwards, near edges first; n/2 - 1 blocks of scratch
//   cost             log2 n alpha + (n-1) B beta, reduce_scatter and (n-1) B gamma
//
// Any n. (n / 2d) blocks go over distance d = 2^k, so half of all bytes go to the neighbour and one
// block half way around, the opposite of Bruck's doubling. Wins for small and middle blocks with
// many ranks; for large ones `ring` wins. A round is one message. The paper also bounds the scratch
// by log2 n blocks, sending tree by tree; here all are in flight. Source: Jeaugey, "PAT: a new
// algorithm for all-gather and reduce-scatter operations at scale" (2025, arXiv 2506.20252).
//
// A rank's place in block b's tree is its offset o from b; o's parent is o without its lowest one
// bit. all_gather, n = 8, from the block's rank on:
//
//   distance 4   0 -> 4
//   distance 2   0 -> 2   4 -> 6
//   distance 1   0 -> 1   2 -> 3   4 -> 5   6 -> 7
#include "collectives/algorithms/algorithms.h"

namespace ringwood {
namespace {

int largest_distance(int n) {
  int distance = 1;
  while (2 * distance < n) distance *= 2;
  return distance;
}

}  // namespace

Schedule pat_all_gather(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n, {}, {}};
  for (int d = largest_distance(n); d > 0; d /= 2) {
    // Edges o -> o + d: this rank is o as the sender, o + d as the receiver.
    std::vector<Span> out, in;
    for (int o = 0; o + d < n; o += 2 * d) {
      out.push_back({wrap(r - o, n)});
      in.push_back({wrap(r - o - d, n)});
    }
    s.send_joined(wrap(r + d, n), out);
    s.recv_joined(wrap(r - d, n), in);
  }
  return s;
}

Schedule pat_reduce_scatter(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, n + 1, {}, {}};
  const int output = n;
  // By offset: where the sum is. Odd offsets are leaves and send their input unchanged.
  std::vector<int> sum(n);
  for (int o = 0; o < n; ++o) {
    const int input = wrap(r - o, n);
    const bool leaf = o % 2 == 1 || o + 1 >= n;
    sum[o] = o == 0 ? output : leaf ? input : s.add_scratch(input);
    if (sum[o] != input) s.copy({sum[o]}, {input});
  }
  for (int d = 1; d < n; d *= 2) {
    std::vector<Span> out, in;
    for (int o = 0; o + d < n; o += 2 * d) {
      out.push_back({sum[o + d]});
      in.push_back({sum[o]});
    }
    s.send_joined(wrap(r - d, n), out);
    s.recv_reduce_joined(wrap(r + d, n), in);
  }
  return s;
}

}  // namespace ringwood

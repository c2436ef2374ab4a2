// Double tree: two binary trees, each for one half of the data, arranged so that an inner rank of
// one is a leaf of the other.
//
//   all_reduce   log2(n) rounds up and as many down, at most two messages each; no rank sends or
//                receives more than 2 S bytes, a ring's share, as it works for one half only
//   broadcast    log2(n) + 2 rounds, S bytes per rank: the root, itself outside of the trees of the
//   reduce       others, gives one half to each tree's top; or takes it
//   cost         in L segments: (log2 n + 2 + L) (alpha + S/L beta), all_reduce twice that
//
// Wins with many ranks: in the middle sizes without segments, for large ones pipelined by segments.
// Its latency grows with log2(n), a chain's with n. Source: Sanders, Speck and Traff, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan" (2009); NCCL has it since 2.4.
//
// Tree 0 is the in-order tree: odd ranks are leaves, even ones are inner. Tree 1 is the same tree
// mirrored (n even) or shifted by one (n odd): odd ranks are inner, even ones leaves (except rank 0
// of an odd n, which has one child in each). n = 8:
//
//   tree 0   0--.                    tree 1                       .--7
//               4                                            3
//            .--+--.                                      .--+--.
//            2     6                                      1     5
//           / \   / \                                    / \   / \     .
//          1   3 5   7                                  0   2 4   6
#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/tree.h"

namespace ringwood {
namespace {

// The in-order tree: the lowest one bit is a node's height, 0 is the root. -1: no parent.
int parent_of(int v, int n) {
  if (v == 0) return -1;
  const int bit = v & -v;
  const int up = (v - bit) | (2 * bit);
  return up < n ? up : v - bit;
}

TreePlace place_in(int tree, int r, int n) {
  const bool even = n % 2 == 0;
  auto node_of = [&](int rank) {
    return tree == 0 ? rank : even ? n - 1 - rank : wrap(rank - 1, n);
  };
  auto rank_of = [&](int node) {
    return tree == 0 ? node : even ? n - 1 - node : wrap(node + 1, n);
  };
  const int v = node_of(r), up = parent_of(v, n);
  TreePlace place;
  if (up >= 0) place.parent = rank_of(up);
  for (int distance = 1; distance < n; distance *= 2) {
    for (int child : {v - distance, v + distance}) {
      const bool exists = child > 0 && child < n;
      if (exists && parent_of(child, n) == v) place.children.push_back(rank_of(child));
    }
  }
  return place;
}

}  // namespace

// The trees are those of the n-1 other ranks, numbered from the rank after the root.
TreePlace double_tree_place(int tree, const Where& where) {
  const auto [r, n, root, host, node] = where;
  const int others = n - 1, v = wrap(r - root - 1, n);
  if (v < others) {
    TreePlace place = rotated(place_in(tree, v, others), root + 1, n);
    if (place.parent < 0) place.parent = root;
    return place;
  }
  TreePlace top;
  for (int other = 0; other < others && top.children.empty(); ++other) {
    if (place_in(tree, other, others).parent < 0) top.children = {wrap(other + root + 1, n)};
  }
  return top;
}

Schedule double_tree_broadcast(const Where& where) {
  Schedule s{where.rank, where.n, 2, {}, {}};
  for (int tree : {0, 1}) hand_down(s, double_tree_place(tree, where), {tree});
  return s;
}

Schedule double_tree_reduce(const Where& where) {
  Schedule s{where.rank, where.n, 2, {}, {}};
  for (int tree : {0, 1}) add_up(s, double_tree_place(tree, where), tree);
  return s;
}

Schedule double_tree_all_reduce(const Where& where) {
  const auto [r, n, root, host, node] = where;
  Schedule s{r, n, 2, {}, {}};
  const TreePlace places[] = {place_in(0, r, n), place_in(1, r, n)};
  for (int tree : {0, 1}) {
    for (int child : places[tree].children) s.recv_reduce(child, {tree});
    if (places[tree].parent >= 0) s.send(places[tree].parent, {tree});
  }
  for (int tree : {0, 1}) {
    if (places[tree].parent >= 0) s.recv(places[tree].parent, {tree});
    for (int child : places[tree].children) s.send(child, {tree});
  }
  return s;
}

}  // namespace ringwood

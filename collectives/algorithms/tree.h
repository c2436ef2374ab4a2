// Trees: the two directions through one, whatever its shape. Internal to algorithms/.
#pragma once

#include <vector>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

// One rank's place in a tree. Children are in the order in which a broadcast sends to them,
// those with the deepest subtrees first. A reduction takes them from the back, whose sums are
// complete first.
struct TreePlace {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};

// Sends `span` from the root to all ranks.
void hand_down(Schedule& s, const TreePlace& place, Span span);

// Adds chunk `own` of all ranks at the root, in place. Elsewhere it is read only, so the sums of
// inner ranks are in scratch.
void add_up(Schedule& s, const TreePlace& place, int own);

// This rank's part of a whole broadcast or reduce, at its place.
Schedule tree_broadcast(const Where& where, const TreePlace& place);
Schedule tree_reduce(const Where& where, const TreePlace& place);

// Radix k: the place of v among n ranks; 0 is the root. In every round each rank that has the data
// sends it to k-1 that have not. k = 2 is the binomial tree.
TreePlace knomial_place(int v, int n, int radix);
// This rank's place in the same tree with where.root as its root.
TreePlace knomial_place(const Where& where, int radix);

// This rank's place in tree 0 or 1 of double_tree.cc, with where.root above it.
TreePlace double_tree_place(int tree, const Where& where);

// Place numbers v -> ranks[v].
TreePlace renamed(TreePlace place, const std::vector<int>& ranks);
// Place numbers v -> v + shift modulo n.
TreePlace rotated(TreePlace place, int shift, int n);

}  // namespace ringwood

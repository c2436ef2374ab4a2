// Trees: the two ways through one, whatever its shape. Internal to algorithms/.
#pragma once

#include <vector>

#include "collectives/algorithms/algorithms.h"

namespace ringwood {

// One rank's place in a tree. Children in the order in which a broadcast serves them, those with
// the deepest subtrees first; a reduction takes them from the back, whose sums are complete first.
struct TreePlace {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};

// From the root to all.
void hand_down(Schedule& s, const TreePlace& place, Span span);

// Chunk `own` of all ranks to the root, where it is added in place. Elsewhere it is read only, so
// the sums of inner ranks grow in scratch.
void add_up(Schedule& s, const TreePlace& place, int own);

// A whole broadcast, a whole reduce: this rank's part of one, at its place.
Schedule tree_broadcast(const Where& where, const TreePlace& place);
Schedule tree_reduce(const Where& where, const TreePlace& place);

// Radix k: the place of v among n, 0 being the root. In every round each rank that has the data
// gives it to k-1 that have not. k = 2 is the binomial tree.
TreePlace knomial_place(int v, int n, int radix);
// The same tree with where.root at its top: this rank's place.
TreePlace knomial_place(const Where& where, int radix);

// Place numbers v -> ranks[v].
TreePlace renamed(TreePlace place, const std::vector<int>& ranks);
// Place numbers v -> v + shift modulo n.
TreePlace rotated(TreePlace place, int shift, int n);

}  // namespace ringwood

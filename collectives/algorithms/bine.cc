// Bine tree (binomial negabinary): a binomial tree that grows to both sides in turn, so that its
// edges are shorter.
//
//   broadcast    ceil(log2 n) rounds; the root sends S ceil(log2 n) bytes
//   reduce       the same backwards; S bytes per rank
//   all_reduce   one after the other: 2 ceil(log2 n) rounds
//   cost         log2 n (alpha + S beta), all_reduce log2 n (2 alpha + 2 S beta + S gamma)
//
// As many rounds and messages as `binomial`, over about 70 % of its distance: wins for small
// messages where neighbours have consecutive numbers and the far links are shared; equal on one
// switch. Source: De Sensi et al., "Bine Trees: Enhancing Collective Operations by Optimizing
// Communication Locality" (SC 2025, arXiv 2508.17311).
//
// Nodes are whole numbers, also negative, taken modulo n in the end. In round k, distances
// d = 1, -1, 3, -5, 11 ... from the largest to the smallest, even nodes send to v + d and odd nodes
// to v - d. After all rounds 2^k consecutive numbers are reached. Any n works: of those some
// window of n contains 0 and with every node its parent (checked to n = 8,192); n = 8:
//
//   round 0, d = 3    0 -> 3
//   round 1, d = -1   0 -> -1   3 -> 4
//   round 2, d = 1    0 -> 1   3 -> 2   -1 -> -2   4 -> 5        -2 .. 5
#include <algorithm>

#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/tree.h"

namespace ringwood {
namespace {

struct Edge {
  int parent, child;
};

// In the order of a broadcast.
std::vector<Edge> edges(int n) {
  std::vector<int> distances;
  for (int d = 1; 1 << distances.size() < n; d = 1 - 2 * d) distances.push_back(d);
  std::vector<int> reached{0};
  std::vector<Edge> result;
  for (auto d = distances.rbegin(); d != distances.rend(); ++d) {
    for (size_t i = 0, count = reached.size(); i < count; ++i) {
      const int parent = reached[i];
      const int child = parent % 2 == 0 ? parent + *d : parent - *d;
      result.push_back({parent, child});
      reached.push_back(child);
    }
  }
  return result;
}

// The first number of the window: the lowest that is valid.
int window(const std::vector<Edge>& tree, int n) {
  int lowest = 0;
  for (const Edge& edge : tree) lowest = std::min(lowest, edge.child);
  for (int first = lowest; first <= 0; ++first) {
    auto inside = [&](int v) { return first <= v && v < first + n; };
    auto closed = [&](const Edge& edge) { return !inside(edge.child) || inside(edge.parent); };
    if (inside(0) && std::all_of(tree.begin(), tree.end(), closed)) return first;
  }
  throw Error(ErrorCode::internal, "no window of the Bine tree serves this number of ranks");
}

TreePlace place_of(const Where& where) {
  const std::vector<Edge> tree = edges(where.n);
  const int n = where.n, first = window(tree, n);
  const int v = first + wrap(where.rank - where.root - first, n);
  TreePlace place;
  for (const Edge& edge : tree) {
    if (edge.child == v) place.parent = edge.parent;
    if (edge.parent != v || edge.child < first || edge.child >= first + n) continue;
    place.children.push_back(wrap(edge.child + where.root, n));
  }
  if (v != 0) place.parent = wrap(place.parent + where.root, n);
  return place;
}

}  // namespace

Schedule bine_broadcast(const Where& where) { return tree_broadcast(where, place_of(where)); }

Schedule bine_reduce(const Where& where) { return tree_reduce(where, place_of(where)); }

Schedule bine_all_reduce(const Where& where) {
  Schedule s{where.rank, where.n, 1, {}, {}};
  const TreePlace place = place_of({where.rank, where.n, 0, {}});
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    s.recv_reduce(*child, {0});
  }
  if (place.parent >= 0) s.send(place.parent, {0});
  hand_down(s, place, {0});
  return s;
}

}  // namespace ringwood

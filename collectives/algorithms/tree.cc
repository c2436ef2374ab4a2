#include "collectives/algorithms/tree.h"

namespace ringwood {

void hand_down(Schedule& s, const TreePlace& place, Span span) {
  if (place.parent >= 0) s.recv(place.parent, span);
  for (int child : place.children) s.send(child, span);
}

void add_up(Schedule& s, const TreePlace& place, int own) {
  const bool inner = place.parent >= 0 && !place.children.empty();
  const Span sum{inner ? s.add_scratch(own) : own};
  if (inner) s.copy(sum, {own});
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    s.recv_reduce(*child, sum);
  }
  if (place.parent >= 0) s.send(place.parent, sum);
}

Schedule tree_broadcast(const Where& where, const TreePlace& place) {
  Schedule s{where.rank, where.n, 1, {}, {}};
  hand_down(s, place, {0});
  return s;
}

Schedule tree_reduce(const Where& where, const TreePlace& place) {
  Schedule s{where.rank, where.n, 1, {}, {}};
  add_up(s, place, 0);
  return s;
}

TreePlace knomial_place(const Where& where, int radix) {
  const int v = wrap(where.rank - where.root, where.n);
  return rotated(knomial_place(v, where.n, radix), where.root, where.n);
}

TreePlace knomial_place(int v, int n, int radix) {
  TreePlace place;
  int weight = 1;  // of v's lowest digit that is not 0; for the root, the first power >= n
  while (weight < n && v / weight % radix == 0) weight *= radix;
  if (v != 0) place.parent = v - v / weight % radix * weight;
  for (int below = weight / radix; below > 0; below /= radix) {
    for (int digit = 1; digit < radix; ++digit) {
      const int child = v + digit * below;
      if (child < n) place.children.push_back(child);
    }
  }
  return place;
}

TreePlace renamed(TreePlace place, const std::vector<int>& ranks) {
  if (place.parent >= 0) place.parent = ranks.at(place.parent);
  for (int& child : place.children) child = ranks.at(child);
  return place;
}

TreePlace rotated(TreePlace place, int shift, int n) {
  if (place.parent >= 0) place.parent = wrap(place.parent + shift, n);
  for (int& child : place.children) child = wrap(child + shift, n);
  return place;
}

}  // namespace ringwood

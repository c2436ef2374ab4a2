#include "collectives/verify/verify_rules.h"

namespace ringwood {

bool Rules::mapped(int rank, int chunk) const {
  if (rank == root) return true;
  if (collective == Collective::gather) return inside(chunk) == rank;
  if (collective == Collective::scatter) return inside(chunk) == n;
  return true;
}

bool Rules::writable(int rank, int chunk) const {
  switch (collective) {
    case Collective::reduce:
    case Collective::gather: return rank == root;
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all: return inside(chunk) >= n;
    default: return true;
  }
}

bool Rules::begins(int rank, int chunk) const {
  switch (collective) {
    case Collective::broadcast: return rank == root;
    case Collective::all_gather:
    case Collective::gather: return inside(chunk) == rank;
    case Collective::reduce_scatter:
    case Collective::all_to_all: return inside(chunk) < n;
    case Collective::scatter: return rank == root && inside(chunk) < n;
    default: return true;
  }
}

int Rules::buffer(int chunk) const {
  const bool two_buffers = collective == Collective::reduce_scatter ||
                           collective == Collective::scatter ||
                           collective == Collective::all_to_all;
  return 2 * segment(chunk) + (two_buffers && inside(chunk) >= n ? 1 : 0);
}

int64_t Rules::size_class(int rank, int chunk) const {
  const int c = inside(chunk);
  const int64_t segment = this->segment(chunk), ranks = n;
  if (equal_blocks) return segment;
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::scatter: return segment * ranks + (c < n ? c : rank);
    case Collective::all_to_all:
      return segment * ranks * ranks + (c < n ? rank * ranks + c : (c - n) * ranks + rank);
    default: return chunk;
  }
}

std::optional<Rules::Wanted> Rules::wanted(int rank, int chunk) const {
  const int c = inside(chunk), base = chunk - c;
  switch (collective) {
    case Collective::all_reduce: return Wanted{kSum, chunk};
    case Collective::reduce: return Wanted{rank == root ? kSum : rank, chunk};
    case Collective::broadcast: return Wanted{root, chunk};
    case Collective::all_gather: return Wanted{c, chunk};
    case Collective::gather:
      if (rank == root) return Wanted{c, chunk};
      return std::nullopt;
    case Collective::reduce_scatter:
      if (c == n) return Wanted{kSum, base + rank};
      return Wanted{rank, chunk};
    case Collective::scatter:
      if (c == n) return Wanted{root, base + rank};
      return std::nullopt;
    case Collective::all_to_all:
      if (c >= n) return Wanted{c - n, base + rank};
      return Wanted{rank, chunk};
    case Collective::barrier: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ringwood

// What a collective (collective.h) guarantees and requires of each chunk.
//
// Part of the verifier. Chunk numbers are those of segments(): segment * chunks-per-segment +
// chunk. Precondition everywhere: rank in 0 .. n-1, chunk in 0 .. chunks-1, segment_count
// divides chunks.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct Rules {
  Collective collective;
  int n;
  int root;
  int segment_count;
  int chunks;                 // of the user, over all segments
  bool equal_blocks = false;  // all blocks are of one size

  // The chunk has memory (and a known size) on this rank.
  bool mapped(int rank, int chunk) const;
  bool writable(int rank, int chunk) const;
  // The chunk contains the rank's own data at the start.
  bool begins(int rank, int chunk) const;
  // A span must not cross from one number to another: each is one buffer of one segment.
  int buffer(int chunk) const;
  // Equal classes have equal bytes, whatever the user's sizes are.
  int64_t size_class(int rank, int chunk) const;

  // What the chunk must contain at the end.
  std::optional<Contents> wanted(int rank, int chunk) const;

 private:
  GroupRank at(int rank) const { return {rank, n, root}; }
  int per_segment() const { return chunks / segment_count; }
  int segment(int chunk) const { return chunk / per_segment(); }
  int inside(int chunk) const { return chunk % per_segment(); }
};

}  // namespace ringwood

// Proves that a set of schedules carries out its collective, or returns a counterexample in words.
//
// Executes all n schedules together symbolically. Every chunk contains an expression: a leaf (rank,
// chunk), or the sum of two expressions up to commutation (hash-consed). Proved, in this order:
// 1. The schedules are well formed: ranks, chunks, spans and peers in range, no message to the
//    rank itself, no span across two buffers or two segments, the two spans of a local step
//    disjoint and of equal sizes, read-only chunks never written, chunks without memory (gather,
//    scatter) never touched.
// 2. Every send has its receive, with the same number of chunks of the same size classes, and
//    travels as the same number of messages at both ends (schedule.h).
// 3. There is no deadlock with zero buffering, where a send completes only together with its
//    receive. Every transport's buffering is therefore safe. One operation is posted per link
//    direction; other steps overlap in any way that graph.h allows, which cannot change the result
//    because hazards are edges.
// 4. The result is right: nothing undefined is read, and every required chunk contains each
//    required (rank, chunk) exactly once and nothing else. For barrier: every rank has transitively
//    heard from every other.
// 5. All ranks that end with the same sum end with the same EXPRESSION: identical bits.
// 6. The output of reduce_scatter may be the memory of the rank's own input block.
//
// Complexity: linear in the number of steps (chunks in spans counted one by one). Memory, besides
// the schedules: 4 bytes for each step of all ranks while their order is proved, then 4 bytes for
// each chunk and about 16 for each distinct sum. What depends on a list alone (its graph, its
// links) is stored once for all ranks that share it (shared_schedules.h). Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/group_schedules.h"

namespace ringwood {

// Returns nothing if proved; else one line: "rank 3 chunk 1 lacks rank 5's chunk 1", "deadlock:
// rank 2 step 7 (recv 5 [1]) waits for rank 5, which is at step 3 (send 4 [2])". `all[r]` is the
// schedule of rank r; `segment_count` is as given to segments(), so chunk numbers in the sentence
// are those of segments. `equal_blocks`: proves block-wise collectives only for blocks of one size;
// otherwise for any sizes.
std::optional<std::string> verify(Collective collective, GroupSchedules all, int root = 0,
                                  int segment_count = 1, bool equal_blocks = false);
// Builds and verifies a row for one n; `host` and `node` as in Where.
std::optional<std::string> verify(const AlgorithmRow& row, int n, int root = 0,
                                  int segment_count = 1, std::span<const int> host = {},
                                  std::span<const int> node = {});

// Adds the n schedules that build(rank) returns, in so many segments. Returns what is too large to
// prove, before it is built: more than 2^31 - 1 chunks, or steps, of all ranks.
std::optional<std::string> add_in_segments(SharedSchedules& all, int n, int segment_count,
                                           const std::function<Schedule(int)>& build);

// Whether the schedules are proved and every sum is ((x0 + x1) + x2) + ... by rank number, up to
// commutation. Such sums have the same bits whatever the algorithm, its placement and its chunks.
// (16-bit floats must also be added in one accumulation: plan.h.)
bool reduces_in_rank_order(Collective collective, GroupSchedules all, int root = 0,
                           int segment_count = 1, bool equal_blocks = false);

// Both at once, in the time of one.
struct ProofResult {
  std::optional<std::string> flaw;
  bool in_rank_order = false;
};
ProofResult prove(Collective collective, GroupSchedules all, int root = 0, int segment_count = 1,
                  bool equal_blocks = false);

}  // namespace ringwood

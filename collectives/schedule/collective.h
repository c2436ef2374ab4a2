// What each collective is: one row of facts.
//
// Everything that applies to all collectives (proofs, plans, costs, fingerprints, packs, perf,
// tests) reads the row and compares no names. So a new collective is a row here, its algorithms and
// its method in communicator.h. Pure; the hot path reads constants.
//
//   collective      user chunks                           rank r begins with   must end with
//   all_reduce      any C: equal pieces of the one        all C                sum in all C
//                   buffer, in place
//   reduce          same                                  all C                root: sum in all C;
//                                                                              others: C unchanged
//   broadcast       same                                  root: all C          root's in all C
//   all_gather      n: block i of the output              chunk r              chunk i = rank i's
//   gather          n: block i of the root's output       chunk r              root: chunk i = rank
//                                                                              i's
//   reduce_scatter  n + 1: blocks of the input, then the  chunks 0..n-1        chunk n = sum of
//                   output                                                     chunk r over ranks
//   scatter         n + 1: blocks of the root's input,    root: chunks 0..n-1  chunk n = root's
//                   then the output                                            chunk r
//   all_to_all      2n: blocks of the input, then blocks  chunks 0..n-1        chunk n+i = rank i's
//                   of the output                                              chunk r
//   barrier         0 (tokens are scratch, 1 byte each)   nothing              heard from all,
//                                                                              transitively
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace ringwood {

enum class Collective {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  gather,
  reduce_scatter,
  scatter,
  all_to_all,
  barrier
};

// The layout of the user's chunks.
enum class Chunks : uint8_t {
  none,               // no data is moved
  pieces,             // of one buffer, in place: as many as the algorithm chooses
  outputs,            // n: the output's blocks; rank r's input is chunk r
  inputs_and_output,  // n + 1: the input's blocks, and the output
  inputs_and_outputs  // 2n: the input's blocks, and the output's
};
enum class Who : uint8_t { all, root };

// `count` ranks from `first`.
struct RankRange {
  int first = 0, count = 0;
  bool operator==(const RankRange&) const = default;
  constexpr bool contains(int rank) const { return first <= rank && rank < first + count; }
};
constexpr RankRange every_rank(int, int n) { return {0, n}; }

struct CollectiveTraits {
  Collective collective;
  const char* name;
  Chunks chunks;
  Who from;  // the ranks whose data the results consist of
  Who to;    // the ranks that have a result
  // The ranks whose data the result of `rank` of n adds; null: data is only moved.
  RankRange (*adds)(int rank, int n);
  // The factor from algorithm bandwidth to bus bandwidth, as in nccl-tests, for n ranks.
  double (*bus_factor)(double n);
};

constexpr double bus_once(double) { return 1; }
constexpr double bus_others(double n) { return (n - 1) / n; }
constexpr double bus_others_twice(double n) { return 2 * (n - 1) / n; }

// By Collective. Its number is sent in messages: new collectives come last.
inline constexpr CollectiveTraits kCollectiveTraits[] = {
    {Collective::all_reduce, "all_reduce", Chunks::pieces, Who::all, Who::all, every_rank,
     bus_others_twice},
    {Collective::reduce, "reduce", Chunks::pieces, Who::all, Who::root, every_rank, bus_once},
    {Collective::broadcast, "broadcast", Chunks::pieces, Who::root, Who::all, nullptr, bus_once},
    {Collective::all_gather, "all_gather", Chunks::outputs, Who::all, Who::all, nullptr,
     bus_others},
    {Collective::gather, "gather", Chunks::outputs, Who::all, Who::root, nullptr, bus_others},
    {Collective::reduce_scatter, "reduce_scatter", Chunks::inputs_and_output, Who::all, Who::all,
     every_rank, bus_others},
    {Collective::scatter, "scatter", Chunks::inputs_and_output, Who::root, Who::all, nullptr,
     bus_others},
    {Collective::all_to_all, "all_to_all", Chunks::inputs_and_outputs, Who::all, Who::all, nullptr,
     bus_others},
    {Collective::barrier, "barrier", Chunks::none, Who::all, Who::all, nullptr, bus_once},
};
inline constexpr int kCollectives = std::size(kCollectiveTraits);

constexpr const CollectiveTraits& traits_of(Collective c) {
  return kCollectiveTraits[static_cast<size_t>(c)];
}
const char* to_string(Collective collective);
// "all_reduce"; also "allreduce", "all-reduce". Throws Error(invalid_argument) listing the names.
Collective parse_collective(std::string_view name);

// ---- what follows from a row -------------------------------------------------------------------

constexpr bool moves_data(Collective c) { return traits_of(c).chunks != Chunks::none; }
constexpr bool reduces(Collective c) { return traits_of(c).adds != nullptr; }
constexpr bool has_root(Collective c) {
  return traits_of(c).from == Who::root || traits_of(c).to == Who::root;
}
// It works on one buffer, which the chunks of its schedules divide; otherwise chunks are blocks, or
// there are none.
constexpr bool cut_from_one_buffer(Collective c) { return traits_of(c).chunks == Chunks::pieces; }
constexpr bool in_blocks(Collective c) { return moves_data(c) && !cut_from_one_buffer(c); }
// Blocks of the input, followed from chunk n on by those of the output.
constexpr bool has_input_chunks(Collective c) {
  return traits_of(c).chunks == Chunks::inputs_and_output ||
         traits_of(c).chunks == Chunks::inputs_and_outputs;
}
// Where block sizes differ, only the two ranks of a block know its size; otherwise all ranks
// know all sizes.
constexpr bool has_sizes_of_pairs(Collective c) {
  return in_blocks(c) && (has_root(c) || traits_of(c).chunks == Chunks::inputs_and_outputs);
}
// All ranks end with the same sums, and so with the same bits.
constexpr bool ends_in_same_sums(Collective c) {
  return cut_from_one_buffer(c) && traits_of(c).to == Who::all && traits_of(c).adds == every_rank;
}
// What a rank sends may lie outside the output, and is not changed.
constexpr bool sends_from_input(Collective c) {
  return traits_of(c).chunks == Chunks::outputs && traits_of(c).to == Who::all;
}
// The output may be the memory of this rank's own block of the input, which is then overwritten.
constexpr bool may_overwrite_input(Collective c) {
  return traits_of(c).chunks == Chunks::inputs_and_output && reduces(c);
}

// The number of user chunks that the collective requires, or 0 where the algorithm chooses it.
int required_chunks(Collective collective, int n);

// One rank of a group. `root` is any rank where there is no root.
struct GroupRank {
  int rank = 0, n = 1, root = 0;
};
constexpr bool is_source(Collective c, const GroupRank& at) {
  return traits_of(c).from == Who::all || at.rank == at.root;
}
constexpr bool has_result(Collective c, const GroupRank& at) {
  return traits_of(c).to == Who::all || at.rank == at.root;
}
// The number of blocks of memory that the caller passes; the one buffer of in-place collectives
// counts as both input and output.
int input_blocks(Collective collective, const GroupRank& at);
int output_blocks(Collective collective, const GroupRank& at);
// Chunks of a collective in blocks: what goes to rank `to`, what comes from rank `from`, and the
// only chunk of a rank that is not the root.
int chunk_sent(Collective collective, const GroupRank& at, int to);
int chunk_received(Collective collective, const GroupRank& at, int from);
int own_chunk(Collective collective, const GroupRank& at);
// Where every rank knows the sizes of all blocks: the rank whose block has the size of the chunk;
// otherwise the chunk.
int block_of_chunk(Collective collective, const GroupRank& at, int chunk);

// The chunk has memory (and a known size).
bool has_memory(Collective collective, const GroupRank& at, int chunk);
bool may_write(Collective collective, const GroupRank& at, int chunk);
// The chunk contains the rank's own data at the start.
bool begins_with(Collective collective, const GroupRank& at, int chunk);
// What the chunk must contain at the end: `chunk` of these ranks, added where `reduced`, otherwise
// of one. Null: anything.
struct Contents {
  RankRange ranks;
  int chunk = 0;
  bool reduced = false;
  bool operator==(const Contents&) const = default;
};
std::optional<Contents> ends_with(Collective collective, const GroupRank& at, int chunk);

}  // namespace ringwood

// The schedule language: what one rank sends, receives and reduces, as data.
//
// A Schedule is the steps of ONE rank, on chunk numbers. It has no sizes, no data types, no tags,
// no waits:
//   - The k-th send a -> b meets the k-th receive at b from a.
//   - The list means "as if sequential"; what may overlap is derived (graph.h), never written.
//   - Whether it is right is proved (verify.h), never assumed.
// An algorithm is a pure function Where -> Schedule (algorithms.h).
//
// Chunks. Numbers 0 .. chunks-1 are the user's, laid out by the collective; the next scratch.size()
// numbers are scratch, scratch[i] naming the user chunk whose size scratch chunk chunks + i has.
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
//   barrier         0 (tokens are scratch, 1 byte each,   nothing              heard from all,
//                   scratch[i] = 0)                                            transitively
//
// Input chunks of reduce_scatter, scatter (root) and all_to_all, and a non-root's chunks in reduce
// and gather, are read only; but reduce_scatter's chunk n may be the memory of chunk r, so it is
// written only after chunk r has been read. A gather's non-root owns only chunk r, a scatter's
// non-root only chunk n; the other numbers have no memory there, not even a size.
//
// Sizes. In all_reduce, reduce, broadcast pieces differ by at most one element, so a message must
// have the same chunk numbers' sizes at both ends. all_gather, gather, scatter and reduce_scatter
// blocks may differ by block, all_to_all's by (from, to), but for schedules that are only for
// blocks of one size (BlockSizes in algorithms.h). The verifier holds each message to that.
//
// Blocks of the user's lie anywhere, so of a span of several each travels by itself; scratch lies
// in one piece and travels as one. So in the collectives with n blocks, both ends of a message of
// several chunks are the user's, or both are scratch.
//
// Value types; no thread safety needed. Idea: msccl-tools' chunk language, MPICH's and libnbc's
// schedules.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "transports/base/error.h"

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
inline constexpr int kCollectives = 9;
const char* to_string(Collective collective);
// "all_reduce"; also "allreduce", "all-reduce". Throws Error(invalid_argument) listing the names.
Collective parse_collective(std::string_view name);
bool has_root(Collective collective);
bool reduces(Collective collective);
// The number of user chunks the collective demands, or 0 where the algorithm is free to choose.
int required_chunks(Collective collective, int n);

// `count` chunks from `first`, all of them the user's or all scratch.
struct Span {
  int first = 0;
  int count = 1;
  auto operator<=>(const Span&) const = default;
};

enum class StepKind {
  send,         // src -> peer
  recv,         // dst  = what peer sent
  recv_reduce,  // dst op= what peer sent
  reduce,       // dst op= src
  copy          // dst  = src
};

struct Step {
  StepKind kind;
  int peer = -1;  // send, recv, recv_reduce
  Span dst;       // all but send
  Span src;       // send, reduce, copy
  bool operator==(const Step&) const = default;
};

struct Schedule {
  int rank = 0;
  int n = 1;
  int chunks = 0;
  std::vector<int> scratch;
  std::vector<Step> steps;
  bool operator==(const Schedule&) const = default;

  // Numbers of scratch chunks, and the builder's verbs.
  int add_scratch(int like) {
    scratch.push_back(like);
    return chunks + static_cast<int>(scratch.size()) - 1;
  }
  void send(int peer, Span src) { steps.push_back({StepKind::send, peer, {0, 0}, src}); }
  void recv(int peer, Span dst) { steps.push_back({StepKind::recv, peer, dst, {0, 0}}); }
  void recv_reduce(int peer, Span dst) {
    steps.push_back({StepKind::recv_reduce, peer, dst, {0, 0}});
  }
  void reduce(Span dst, Span src) { steps.push_back({StepKind::reduce, -1, dst, src}); }
  void copy(Span dst, Span src) { steps.push_back({StepKind::copy, -1, dst, src}); }
};

// x modulo n, never negative: ring arithmetic.
constexpr int wrap(int x, int n) { return ((x % n) + n) % n; }

// Text form (schedule_text.cc), for people, scripts and tests:
//   schedule rank 1 of 4 chunks 4 scratch 0 2
//   send 2 [0]
//   recv_reduce 0 [3]
//   copy [4:6] <- [0:2]           # [first] or [first:end), comments after #
std::string print(const Schedule& schedule);
std::string print(const Step& step);  // "send 2 [0]"
// Bounded and strict; throws Error(invalid_argument) with the line number.
Schedule parse_schedule(std::string_view text);
// One or more of them, one after the other: each header line begins the next.
std::vector<Schedule> parse_schedules(std::string_view text);

}  // namespace ringwood

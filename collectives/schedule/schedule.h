// The schedule language: what one rank sends, receives and reduces, as data.
//
// A Schedule is the steps of ONE rank, on chunk numbers. It has no sizes, no data types, no
// tags, no waits:
//   - The k-th send a -> b meets the k-th receive at b from a.
//   - The list means "as if sequential"; what may overlap is derived (graph.h), never written down.
//   - Its correctness is proved (verify.h), never assumed.
// An algorithm is a pure function Where -> Schedule (algorithms.h).
//
// Chunks. Numbers 0 .. chunks-1 are the user's, in the layout of the collective (collective.h).
// The next scratch.size() numbers are scratch: scratch chunk chunks + i has the size of user
// chunk scratch[i].
//
// Input chunks of reduce_scatter, scatter (root) and all_to_all, and a non-root's chunks in reduce
// and gather, are read only. However, chunk n of reduce_scatter may be the memory of chunk r, so it
// is written only after chunk r has been read. In a gather a non-root has only chunk r, in a
// scatter only chunk n; the other numbers have neither memory nor a size there.
//
// Sizes. In all_reduce, reduce, broadcast pieces differ by at most one element, so both ends of a
// message must have the sizes of the same chunk numbers. Blocks of all_gather, gather, scatter and
// reduce_scatter may differ by block, those of all_to_all by (from, to), except in schedules that
// are only for blocks of one size (BlockSizes in algorithms.h). The verifier checks each message.
//
// Messages. Consecutive sends to one peer may be joined to one message of several spans, as may
// consecutive receives from one peer; both ends join the same ones. The values, and what is proved,
// are those of the steps one by one. How such a message travels is decided in the plan (bundle() in
// plan/passes.h): where blocks are small, as one, by way of the scratch; else each block by itself,
// without a copy. So a round of many blocks costs one post where posts matter, and the language
// needs neither strides nor lists: blocks of any numbers, wrapped around or of irregular hosts, are
// joined alike, and all that walks steps knows nothing of it.
//
// The user's blocks may lie anywhere, so a span of several is joined in the same way; scratch is
// contiguous and always travels as one. So in the collectives with n blocks, both ends of a step of
// several chunks are the user's, or both are scratch.
//
// Plain values; no thread safety needed. Idea: msccl-tools' chunk language, MPICH's and
// libnbc's schedules.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/collective.h"
#include "transports/base/error.h"

namespace ringwood {

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
  int peer = -1;        // send, recv, recv_reduce
  Span dst;             // all but send
  Span src;             // send, reduce, copy
  bool joined = false;  // a send, or receive, in the message of the one directly before it
  bool operator==(const Step&) const = default;
};

struct Schedule {
  int rank = 0;
  int n = 1;
  int chunks = 0;
  std::vector<int> scratch;
  std::vector<Step> steps;
  bool operator==(const Schedule&) const = default;

  // Adds a scratch chunk and returns its number. The methods below append steps.
  int add_scratch(int like) {
    scratch.push_back(like);
    return chunks + static_cast<int>(scratch.size()) - 1;
  }
  void send(int peer, Span src) { steps.push_back({StepKind::send, peer, {0, 0}, src}); }
  void recv(int peer, Span dst) { steps.push_back({StepKind::recv, peer, dst, {0, 0}}); }
  void recv_reduce(int peer, Span dst) {
    steps.push_back({StepKind::recv_reduce, peer, dst, {0, 0}});
  }
  // One message of these spans; nothing if there are none.
  void send_joined(int peer, const std::vector<Span>& src) {
    for (size_t i = 0; i < src.size(); ++i)
      steps.push_back({StepKind::send, peer, {0, 0}, src[i], i > 0});
  }
  void recv_joined(int peer, const std::vector<Span>& dst) {
    for (size_t i = 0; i < dst.size(); ++i)
      steps.push_back({StepKind::recv, peer, dst[i], {0, 0}, i > 0});
  }
  void recv_reduce_joined(int peer, const std::vector<Span>& dst) {
    for (size_t i = 0; i < dst.size(); ++i)
      steps.push_back({StepKind::recv_reduce, peer, dst[i], {0, 0}, i > 0});
  }
  void reduce(Span dst, Span src) { steps.push_back({StepKind::reduce, -1, dst, src}); }
  void copy(Span dst, Span src) { steps.push_back({StepKind::copy, -1, dst, src}); }
};

// The end of the message, or local step, that begins with step i.
inline size_t end_of_message(const std::vector<Step>& steps, size_t i) {
  do ++i;
  while (i < steps.size() && steps[i].joined);
  return i;
}

// x modulo n, never negative: ring arithmetic.
constexpr int wrap(int x, int n) { return ((x % n) + n) % n; }

// Text form (schedule_text.cc), for people, scripts and tests:
//   schedule rank 1 of 4 chunks 4 scratch 0 2
//   send 2 [0]
//   recv_reduce 0 [3]
//   send 3 [1] [2:4]              # joined: one message of two spans
//   copy [4:6] <- [0:2]           # [first] or [first:end), comments after #
std::string print(const Schedule& schedule);
std::string print(const Step& step);  // "send 2 [0]"
// Bounded and strict; throws Error(invalid_argument) with the line number.
Schedule parse_schedule(std::string_view text);
// Those of all ranks, in any order; returned by rank. Each header line begins the next.
std::vector<Schedule> parse_schedules(std::string_view text);

}  // namespace ringwood

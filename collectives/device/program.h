// What the thread blocks of a device do for a collective: a program for each rank, of three verbs.
//
//   post  peer k   "I have come to point k of this operation", told to a peer
//   wait  peer k   until that peer has told so, or more
//   pass           dst[i] = src[0][i] op src[1][i] op ... for each dst, elementwise, where a span
//                  may lie in a peer's memory
//
// All signals from one rank to another are one counter, which only grows: k = 0 is the hello that
// every rank tells every other one at the start, which promises that its input is ready and that
// its memory may be accessed. A program ends only when nobody reads or writes its rank's memory any
// more. It has no sizes, types or addresses: those are bound to it, as to a schedule.
//
// A block carries out its program in order, and only waits stop it. Its correctness is proved
// (prove.h), never assumed.
//
// Plain values; no thread safety needed. The direct all-reduce becomes NCCL's symmetric kernel that
// reduces by loads and gathers by stores, one_shot with packets mscclpp's all-reduce of packets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood::device {

// Operands and results of a pass: as many as reduce_many() takes.
inline constexpr size_t kMaxOperands = 16;

// Chunks in a rank's memory or, where `slot` is a message's number, in that message's place among
// the packets there: data that carry their own flag. `row`: the sum of a row of additions
// (schedule/rows.h) that several passes share; where its type is a 16- or 8-bit float, they keep it
// in fp32 elsewhere.
struct Ref {
  int rank = 0;
  Span span;
  int slot = -1;
  int row = -1;
  bool operator==(const Ref&) const = default;
};

enum class Verb : uint8_t { pass, post, wait };

// What a signal is for. Known while programs are made; the device sees numbers only.
enum class Promise : uint8_t {
  none,
  ready,  // of the sender: the data are there
  done,   // of the receiver: the sender's memory has been read
  open    // of the receiver: its memory may be written
};

struct Instruction {
  Verb verb = Verb::pass;
  std::vector<Ref> dst = {}, src = {};  // pass
  std::vector<int> own = {};            // of a sum, by source: the rank whose own numbers; or -1
  int row = -1;                         // of a sum: its row in the rank's schedule
  bool completes = false;               // the sum of all ranks
  int peer = -1, number = 0;            // post, wait
  Promise promise = Promise::none;
  int message = -1;  // that the promise is about
  bool operator==(const Instruction&) const = default;
};
using Program = std::vector<Instruction>;

// How a message's data get from its sender to its receiver.
enum class Way : uint8_t {
  pull,   // the receiver reads the sender's memory
  push,   // the sender writes into the receiver's
  packet  // the sender writes them, with their flag, into a slot at the receiver
};

struct LoweredMessage {
  int from = 0, to = 0;
  int send = -1, recv = -1;  // steps of the two ranks
  Span src, dst;
  Way way = Way::pull;
  // Of a push: what it overwrites was last read by its sender itself, so nobody has to allow it.
  bool answers = false;
};

struct Lowered {
  std::vector<Program> programs;  // by rank
  // Every sum of all ranks is one pass over the ranks' own numbers (Sums::whole in plan/sums.h).
  bool whole = true;
  std::vector<LoweredMessage> messages;
};

// "pass 0[1] 2[1] <- 0[1] 2[1]", "post 2 #1", "wait 2 #1"; a slot is "2<5>".
std::string print(const Instruction& instruction);
std::string print(const Program& program);  // a line each

}  // namespace ringwood::device

// A proved program with sizes: the words and operands that each block of a rank reads
// (kernel/words.h), block b for segment b of the data.
//
// Pure. What it makes depends on the arguments of the collective only, not on addresses: it is
// uploaded once and cached with the plan. Where a rank has its buffers, it says in its hello.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/device/kernel/words.h"
#include "collectives/device/lower.h"
#include "collectives/plan/plan.h"

namespace ringwood::device {

// How this rank's buffers lie; peers need not agree.
struct RankBuffers {
  // Not mapped by the peers: the kernel copies the input to this rank's staging before its hello,
  // and the result from there at the end.
  bool staged = false;
  // all_gather, gather: the input is the rank's own block of the output.
  bool in_place = false;
  // Elements from one of the user's blocks to the next, where a call is carried out in pieces of
  // its blocks: staged only. 0: those of the call.
  size_t user_block = 0;
};

struct BoundWords {
  std::vector<Word> words;
  std::vector<Operand> operands;
  std::vector<uint32_t> first;  // by segment: its first word
  std::vector<uint64_t> reach;  // by rank and shared space: bytes that the words touch there
  uint64_t scratch_bytes = 0;   // of this rank
  uint64_t packet_bytes = 0;    // the most that a segment needs at any rank; 0: no packets
  uint64_t input_bytes = 0, output_bytes = 0;  // of this rank's user
};

// Which reduction the device carries out for an operation of a type, and its factors.
struct BoundFold {
  Fold fold = Fold::sum;
  double scale = 1, divisor = 1;
  bool tells_factor = false;  // PREMUL_SUM: of each rank
  bool finishes = false;      // the pass that completes a sum divides it
};
// `whole`: Lowered::whole. Precondition: supports(type, op).
BoundFold fold_of(DataType type, ReduceOp op, int n, bool whole);

// The name of the kernel for a type and what it does: complex numbers are pairs of floats, bits are
// bits, and products wrap alike with and without a sign.
std::string kernel_of(DataType type, Fold fold);

// Throws Error(invalid_argument) where only pairs of ranks know the sizes of blocks. Precondition:
// `args` are those of the collective that was lowered; 1 <= segments <= kMaxSegments.
BoundWords bind_words(const ProvedProgram& proved, int rank, const CollectiveArgs& args,
                      int segments, const RankBuffers& buffers);

}  // namespace ringwood::device

// Space-time pictures of a set of schedules: ranks across, rounds downward, an arrow for
// each message.
//
// Rounds are derived. A message leaves when its sender is ready (graph.h). It arrives one round
// later, or when its receiver is ready, and no earlier than the one before it on its link.
// Local steps take no time. So the number of rounds is the number of latencies on the longest
// path. Chunks are named by their contents: a partial sum of chunk 2 is called [2] also while
// it is in scratch.
//
// Deterministic: equal schedules give equal text, byte for byte. Pure; any thread. Correctness is
// not checked (verify.h does that): wrong schedules are drawn as well, so that a reader can see
// what is wrong. Throws Error(invalid_argument) if their messages do not pair, or deadlock.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

struct Picture {
  // All messages of one round from one rank to another that the receiver handles alike.
  struct Arrow {
    int round, arrival;  // the rounds before which it leaves and arrives; arrival > round
    int from, to;
    bool adds;                // the receiver's step is recv_reduce, else recv
    std::vector<int> chunks;  // ascending; empty: barrier tokens
  };
  int rounds = 0;
  std::vector<Arrow> arrows;  // by round, from, to
  // operands[k][rank][chunk]: how many operands the user's chunk has before round k; k = rounds
  // means at the end.
  std::vector<std::vector<std::vector<int>>> operands;
};
Picture lay_out(Collective collective, const std::vector<Schedule>& all, int root = 0);

// Picture::rounds, without the memory that the picture takes: rounds x ranks x chunks.
int count_rounds(GroupSchedules all, int root = 0);

// "[0 2 4:6]", or "" for none. Precondition: ascending.
std::string print_chunks(const std::vector<int>& chunks);

// A table: what each rank sends in each round.
//   round  rank 0    rank 1
//   0      [0] +> 1  [1] +> 0      +> added there, -> stored there
std::string draw_ascii(Collective collective, const std::vector<Schedule>& all, int root = 0);

// An SVG document. Colours are chunks. Solid arrows are added, dashed ones stored. The boxes of a
// rank are its user chunks, each filled as far as its sum is complete. `host` as in Where: ranks of
// one host share a background.
std::string draw_svg(Collective collective, const std::vector<Schedule>& all,
                     std::string_view title, int root = 0, std::span<const int> host = {});

}  // namespace ringwood

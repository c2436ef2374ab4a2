// Space-time pictures of a set of schedules: ranks across, rounds downward, an arrow for each
// message.
//
// Rounds are derived, not written. A message leaves when its sender is ready (graph.h), arrives one
// round later or when its receiver is ready, and no earlier than the one before it on its link;
// local steps take no time. So the number of rounds is the number of latencies on the longest path.
// Chunk names follow the contents: a partial sum of chunk 2 is called [2] also while it lies in
// scratch.
//
// Deterministic: equal schedules, equal text, byte for byte. Pure; any thread. Whether the result
// is right is verify.h's business: wrong schedules are drawn as well, so that one can see what is
// wrong, unless their messages do not pair or deadlock; then Error(invalid_argument).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct Picture {
  // All messages of one round from one rank to another that are stored alike.
  struct Arrow {
    int round, arrival;  // before which rounds; arrival > round
    int from, to;
    bool adds;                // recv_reduce there, else recv
    std::vector<int> chunks;  // ascending; empty: barrier tokens
  };
  int rounds = 0;
  std::vector<Arrow> arrows;  // by round, from, to
  // held[k][rank][chunk]: how many operands the user's chunk holds before round k; k = rounds: at
  // the end.
  std::vector<std::vector<std::vector<int>>> held;
};
Picture lay_out(Collective collective, const std::vector<Schedule>& all, int root = 0);

// "[0 2 4:6]", or "" for none. Precondition: ascending.
std::string print_chunks(const std::vector<int>& chunks);

// A table: what each rank sends in each round.
//   round  rank 0    rank 1
//   0      [0] +> 1  [1] +> 0      +> added there, -> stored there
std::string draw_ascii(Collective collective, const std::vector<Schedule>& all, int root = 0);

// An SVG document. Colours are chunks; solid arrows are added, dashed ones stored; the boxes of a
// rank are its user chunks, each filled as far as its sum is complete. `host` as in Where: ranks of
// one host share a background.
std::string draw_svg(Collective collective, const std::vector<Schedule>& all,
                     std::string_view title, int root = 0, std::span<const int> host = {});

}  // namespace ringwood

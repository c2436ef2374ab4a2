// The schedules with which pairs of ranks are measured.
//
// All ranks take part in each of them: it is a broadcast of one chunk from rank 0, which starts
// the others and makes the whole a collective that can be proved; after that, each flow moves
// copies of the chunk from a rank's scratch to another one's. So a receiver's time is that of the
// broadcast, which is the same for every number of copies, and that of its own flow. The sender
// makes few copies and sends them again and again, because making them takes time beside the
// transfer.
//
//   rank 0        rank 2            rank 3
//   send all [0]
//                 recv 0 [0]        recv 0 [0]
//                 copy [1:65]       recv 2 [1:65]
//                 send 3 [1:65]     recv 2 [65:129]
//                 send 3 [1:65]     ...
//
// Pure.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/plan/proved_schedules.h"

namespace ringwood::tools {

// Perfect matchings of 0 .. n-1 in which each pair meets exactly once: n - 1 of them, or n with one
// number idle in each where n is odd (circle method).
std::vector<std::vector<std::pair<int, int>>> tournament(int n);

// From a rank to another one.
struct Flow {
  int from = 0, to = 0;
  bool operator==(const Flow&) const = default;
};

// Every flow moves `copies` of the chunk; `most`: what each scratch has room for, so that those
// with fewer copies are otherwise alike. Both are multiples of 16, and `copies` of `most` / 16.
std::shared_ptr<const ProvedSchedules> transfer_round(int ranks, const std::vector<Flow>& flows,
                                                      int copies, int most);

// Every flow sends the chunk to and fro, `times` round trips one after the other.
std::shared_ptr<const ProvedSchedules> ping_round(int ranks, const std::vector<Flow>& flows,
                                                  int times);

}  // namespace ringwood::tools

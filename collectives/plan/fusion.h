// Which steps of a plan can be carried out in one pass over memory.
//
//   at the owner of a span                     at each of the others
//     recv_reduce from a, b, c into X             send X to the owner      (the offer)
//     send X to a, b, c                           recv X from the owner    (its answer)
//
// Where the links let the owner see the others' X and write to it (Link::put_place), the owner
// reads every operand once and writes every result once: 2 S bytes of memory traffic per rank, the
// least there is, while the schedule stays what it was. Whether it happens is decided for each
// execution, by what the peers' memory allows; the steps one by one give the same bits.
//
// An offer names the message that may come as its answer, so a peer whose plan means something else
// never writes.
#pragma once

#include <cstdint>
#include <vector>

namespace ringwood {

// Equal in number and in the same order of peers.
struct Fusion {
  std::vector<int32_t>
      receives;  // recv_reduce, not encoded, into one span, which nothing else touches meanwhile
  std::vector<int32_t> sends;    // of that span, to the same peers
  std::vector<int32_t> queues;   // Plan::peers of each
  std::vector<int32_t> numbers;  // of each send among its peer's sends
};

}  // namespace ringwood

// Which steps of a plan can be carried out in one pass over memory.
//
//   at the owner of a span                     at each of the others
//     recv_reduce from a, b, c into X             send X to the owner      (as an exposed buffer)
//     send X to a, b, c                           recv X from the owner    (its put)
//
// Where the links let the owner read the others' X in place and write to it (Link::put_place), the
// owner reads every operand once and writes every result once. That is 2 S bytes of memory traffic
// per rank, the minimum, with the schedule unchanged. Whether it happens is decided for each
// execution by what the memory of the peers allows; the steps one by one give the same bits.
//
// An exposed buffer names the message that may be put into it, so a peer whose plan differs never
// writes to it.
#pragma once

#include <cstdint>
#include <vector>

#include "transports/base/clock.h"

namespace ringwood {

// The lists are equal in number and in the same order of peers.
struct Fusion {
  std::vector<int32_t>
      // recv_reduce, not encoded, into one span, which no other step touches in between
      receives;
  std::vector<int32_t> sends;    // of that span, to the same peers
  std::vector<int32_t> queues;   // index into Plan::peers of each
  std::vector<int32_t> numbers;  // number of each send among the sends to its peer
  Duration patience{};           // so long the first operands wait for the others
};

}  // namespace ringwood

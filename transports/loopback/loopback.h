// Loopback: ranks that are threads of one process. The reference transport, which also injects
// faults.
//
// A rendezvous without buffering: the receiver copies straight from the memory that the sender has
// posted, so a send completes only together with its receive. Whatever runs here needs no
// transport's buffers.
#pragma once

#include <cstdint>
#include <memory>

#include "transports/transport.h"

namespace ringwood {

// Seeded, and counted in polls instead of time, so that a run can be repeated and wastes no time.
struct LoopbackFaults {
  uint64_t seed = 1;
  // Each message is delayed for 0..delay polls of its receiver, and each direction's completions
  // are reported 0..delay polls late, independently of the other direction and of other links.
  uint32_t delay = 0;
  // After that many messages of a pair of links (both directions together) both report "connection
  // cut".
  uint64_t cut_after = UINT64_MAX;
};

std::unique_ptr<Transport> make_loopback(const LoopbackFaults& faults);

}  // namespace ringwood

// The link to one peer during one execution, and what was posted on it. Plain values; not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/plan/plan.h"
#include "transports/mesh.h"

namespace ringwood {

struct PeerLink {
  PeerLink(Mesh& mesh, int channel, const PeerQueue& its_queue)
      : queue(&its_queue),
        link(mesh.peers[its_queue.peer].link[channel].get()),
        totals(&mesh.totals[channel][its_queue.peer]),
        base(*totals) {}

  const PeerQueue* queue;
  Link* link;
  Completions* totals;  // of the mesh: what the link reported last
  Completions base;     // `totals` when the execution began
  // Fingerprints posted, to the peer and from it; they precede all messages of the plan.
  int preambles_out = 0, preambles_in = 0;
  // Messages of the plan posted.
  size_t sends_posted = 0, receives_posted = 0;

  uint64_t sent() const { return totals->sent - base.sent; }
  uint64_t received() const { return totals->received - base.received; }
  bool sending() const { return sent() < sends_posted + preambles_out; }
  bool outstanding() const { return sending() || received() < receives_posted + preambles_in; }
};

// A link of the queued executor, which handles messages in the order in which they become ready.
struct QueuedLink : PeerLink {
  using PeerLink::PeerLink;
  size_t sends_done = 0, receives_done = 0;
  size_t in_place = 0;  // the next receive whose bytes are read in place
  size_t in_place_offset = 0;

  // Something is outstanding, or is complete and has not been noticed yet.
  bool open() const {
    return outstanding() || sends_done + preambles_out < sent() ||
           receives_done + preambles_in < received();
  }
};

}  // namespace ringwood

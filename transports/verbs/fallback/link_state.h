// What all parts of a link share: the ranks at its ends, whether it is over, and the
// fallback connection between them.
//
// Thread safety: gate.abort() and const members from any thread; all else from the link's user.
#pragma once

#include "transports/base/fork_guard.h"
#include "transports/base/options.h"
#include "transports/group.h"
#include "transports/link.h"
#include "transports/link_parts.h"
#include "transports/verbs/fallback/fallback_connection.h"

namespace ringwood::verbs {

struct LinkState {
  LinkState(const Group& group, int peer_rank, OwnedFd connection)
      : options(group.options->verbs),
        rank(group.rank()),
        peer(peer_rank),
        fault(peer_rank, "verbs"),
        fallback(std::move(connection)) {}

  bool over() const { return gate.aborted() || fault; }
  // As in LinkFault.
  bool refuses(size_t bytes) const { return fault.refuses(gate, bytes); }
  Status why(size_t bytes) const { return fault.why(gate, bytes); }
  // True in a child of the process that made it: queues and mutexes are the parent's.
  bool inherited() const noexcept { return forked_since(process); }

  const VerbsOptions options;
  const int rank, peer;
  const int process = current_pid();
  AbortGate gate;
  LinkFault fault;
  FallbackConnection fallback;
};

}  // namespace ringwood::verbs

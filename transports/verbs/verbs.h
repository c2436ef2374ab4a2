// InfiniBand and RoCE: reliable queue pairs of libibverbs, which is loaded at run time.
//
// Every link has a ring of registered memory at each end of each direction. The sender copies its
// messages into its own ring and writes them to the same place of the peer's, with an immediate
// that gives the position. The receiver gives back what it has read (credit), so it decides what
// may be in flight, and neither ring nor queue can overflow. A write that was not acknowledged is
// still in the sender's ring: when a rail goes down, it is written again over another one, and over
// the link's own TCP connection if none is left.
//
// If verbs cannot be used, one line of the log says why and what to change, and no rank is reached.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace ringwood {

std::unique_ptr<Transport> make_verbs();

}  // namespace ringwood

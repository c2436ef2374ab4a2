// TCP: between hosts, and wherever nothing better reaches.
//
// RINGWOOD_TCP_SOCKETS connections per pair and channel; the lower rank accepts, the higher dials.
// A send is finished when the kernel has taken its bytes. A peer's death is noticed at the next
// byte that is wanted from it, and for a host that vanished, 12 heartbeats after the first byte
// that it does not acknowledge.
#pragma once

#include <memory>

#include "transports/link.h"

namespace ringwood {

std::unique_ptr<Transport> make_tcp();

}  // namespace ringwood

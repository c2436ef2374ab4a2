// Shared memory between the processes of one host; see shared_region.h for what is where.
//
// A send is finished when its bytes are in the ring, so up to RINGWOOD_SHM_RING_BYTES are buffered
// per direction. A send of memory of the arena is lent instead and finished when the peer has read
// it. A process that dies without a word is not noticed here but by the control
// connection.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace ringwood {

std::unique_ptr<Transport> make_shm();

}  // namespace ringwood

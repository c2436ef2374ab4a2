// Shared memory between the processes of one host; shared_region.h has the layout.
//
// A send is finished when its bytes are in the ring, so up to RINGWOOD_SHM_RING_BYTES are buffered
// per direction. A send from memory of the arena goes zero-copy instead, and is finished when the
// peer has read it. The kernel tells the host's ranks of the end of a process (process_ends.h);
// what it had sent still arrives.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace ringwood {

std::unique_ptr<Transport> make_shm();

}  // namespace ringwood

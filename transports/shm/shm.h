// Shared memory between the processes of one host; shared_region.h has the layout.
//
// A send is finished when its bytes are in the ring, so up to RINGWOOD_SHM_RING_BYTES are buffered
// per direction. A send from memory of the arena goes zero-copy instead, and is finished when the
// peer has read it. The kernel tells the host's ranks of the end of a process (process_ends.h);
// what it had sent still arrives.
#pragma once

#include <cstddef>
#include <memory>

#include "transports/transport.h"

namespace ringwood {

std::unique_ptr<Transport> make_shm();

namespace shm {
// What a ring takes where so many ranks of a host have so many links to each other: as the option
// says, but all rings of a host together at most 1 GiB.
size_t ring_bytes(size_t members, int channels, size_t wanted);
}  // namespace shm

}  // namespace ringwood

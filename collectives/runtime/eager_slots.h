// The eager slots of one rank to all others (transports/mailbox.h).
#pragma once

#include "transports/mesh.h"

namespace ringwood {

// Whether this rank has eager slots to every other. All ranks of a group come to the same answer:
// they all share one memory, or each lacks somebody.
bool slots_to_all(const Mesh& mesh);

}  // namespace ringwood

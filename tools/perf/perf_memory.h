// How large the buffers of a run may be, so that it measures and does not end for lack of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/gather.h"

namespace ringwood::tools {

// Bytes that a rank may allocate: what its host has left, but for a reserve, is shared by the
// host's ranks; of the host that has the least. Collective; the same on all ranks.
size_t memory_of_rank(Communicator& group, const std::vector<HostRanks>& hosts);

}  // namespace ringwood::tools

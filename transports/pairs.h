// The connections of a transport between this rank and its peers: the higher rank of a pair dials.
#pragma once

#include <functional>
#include <vector>

#include "transports/link.h"
#include "transports/link_parts.h"

namespace ringwood {

// Collective among the wanted: [peer][0 .. each), empty where not wanted. `greeting` says what
// connection number `index` of `from` to `to` is for. The descriptors are as take()'s (net.h).
// Throws Error that names peer and transport.
std::vector<std::vector<OwnedFd>> connect_pairs(
    const Group& group, const std::vector<bool>& wanted, int each, const char* transport,
    const std::function<Greeting(int from, int to, int index)>& greeting);

}  // namespace ringwood

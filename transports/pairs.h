// The connections of a transport between this rank and its peers: the higher rank of a pair dials.
#pragma once

#include <functional>
#include <vector>

#include "transports/base/owned_fd.h"
#include "transports/bootstrap/net.h"
#include "transports/link.h"

namespace ringwood {

// What this rank dials to reach that one.
std::vector<NetAddress> addresses_of(const Group& group, int peer);

// Collective: [peer][0 .. counts[peer]); both ends of a pair must say the same count. `greeting`
// says what connection number `index` of `from` to `to` is for. The descriptors are as take()'s
// (net.h). Throws Error that names peer and transport.
std::vector<std::vector<OwnedFd>> connect_pairs(
    const Group& group, const std::vector<int>& counts, const char* transport,
    const std::function<Greeting(int from, int to, int index)>& greeting);

}  // namespace ringwood

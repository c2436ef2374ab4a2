// The connections of a transport between this rank and its peers: the higher rank of a pair dials.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transports/base/owned_fd.h"
#include "transports/bootstrap/net.h"
#include "transports/group.h"

namespace ringwood {

// What this rank dials to reach that one.
std::vector<NetAddress> addresses_of(const Group& group, int peer);

// Collective: [peer][0 .. counts[peer]); both ends of a pair must say the same count. Each shakes
// hands for the transport of this name; `channel` is the number by which both ends know connection
// `index` of a pair, alike on both. The descriptors are as take()'s (net.h). Throws Error that
// names peer and transport.
std::vector<std::vector<OwnedFd>> connect_pairs(
    const Group& group, const std::vector<int>& counts, const char* transport,
    const std::function<uint16_t(int peer, int index)>& channel);

}  // namespace ringwood

// The connections of a transport between this rank and its peers: the higher rank of a pair dials.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transports/base/owned_fd.h"
#include "transports/bootstrap/net.h"
#include "transports/group.h"

namespace ringwood {

// The addresses that this rank dials to reach `peer`.
std::vector<NetAddress> addresses_of(const Group& group, int peer);

// Collective. Returns [peer][0 .. counts[peer]); both ends of a pair must pass the same count. Each
// connection performs a handshake for the transport of this name; `channel` is the number by which
// both ends identify connection `index` of a pair, equal on both. The descriptors are as take()'s
// (net.h). Throws Error that names peer and transport.
std::vector<std::vector<OwnedFd>> connect_pairs(
    const Group& group, const std::vector<int>& counts, const char* transport,
    const std::function<uint16_t(int peer, int index)>& channel);

}  // namespace ringwood

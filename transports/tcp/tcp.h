// TCP: between hosts, and wherever nothing better reaches.
//
// The lower rank of a pair accepts; the higher rank dials and decides how many connections each
// channel has: RINGWOOD_TCP_SOCKETS, or as many as it has cores to spare. A send is finished when
// the kernel has taken its bytes, or, if a network card reads them from the user's memory
// (tcp/zero_copy.h), when the card has read them.
//
// The death of a peer is noticed at the next byte that is wanted from it; for a host that vanished,
// 12 heartbeats after the first byte that it does not acknowledge. A peer that does not read is
// waited for (host_watch.h).
#pragma once

#include <memory>

#include "transports/transport.h"

namespace ringwood {

// For tests: sends zero-copy even without a network card.
struct TcpSettings {
  bool always_zero_copy = false;
};
std::unique_ptr<Transport> make_tcp(const TcpSettings& settings);
std::unique_ptr<Transport> make_tcp();

// Connections per pair for a rank that shares `cores` with others: more than one only if several
// cores are free to serve the network, beside the one that drives the connections.
int sockets_for(int cores, int ranks_on_host);

}  // namespace ringwood

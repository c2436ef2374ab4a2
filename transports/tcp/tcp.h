// TCP: between hosts, and wherever nothing better reaches.
//
// The lower rank of a pair accepts, the higher dials and says how many connections each channel
// has: RINGWOOD_TCP_SOCKETS, or as many as it has cores to spare. A send is finished when the
// kernel has taken its bytes, or, where a network card reads them in the user's memory
// (tcp/zero_copy.h), when it has done so. A peer's death is noticed at the next
// byte that is wanted from it, and for a host that vanished, 12 heartbeats after the first byte
// that it does not acknowledge. A peer that does not read is waited for (host_watch.h).
#pragma once

#include <memory>

#include "transports/transport.h"

namespace ringwood {

// For tests: memory is lent to the kernel also where no network card is.
struct TcpSettings {
  bool always_zero_copy = false;
};
std::unique_ptr<Transport> make_tcp(const TcpSettings& settings);
std::unique_ptr<Transport> make_tcp();

// Connections per pair of a rank that shares `cores` with others: more than one only where, beside
// the core that drives it, several are free to serve the network.
int sockets_for(int cores, int ranks_on_host);

}  // namespace ringwood

// The serving side of tcp_store: one thread, many clients, requests bounded by store_wire.h.
#pragma once

#include <memory>
#include <string>

#include "transports/net.h"

namespace ringwood {

class StoreServer {
 public:
  virtual ~StoreServer() = default;
  // By which its own process reaches it: not every host is reached by its public name from within.
  virtual NetAddress address() const = 0;
};

// Listens on the addresses of `host` that are this machine's. A name that means only loopback here
// (127.0.1.1 in /etc/hosts), or an address that is not ours (behind a port forward), is served on
// all addresses, because the other hosts may know it by another; that is logged. Throws
// Error(network) naming the address.
std::unique_ptr<StoreServer> serve_store(const std::string& host, int port);

}  // namespace ringwood

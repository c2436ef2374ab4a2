// The serving side of tcp_store: one thread, many clients.
//
// Every connection begins with the handshake (handshake.h, purpose store): with the key of
// RINGWOOD_KEY_FILE, and so nothing is told to who has not proved it; else with a key that everyone
// knows, which keeps out only who speaks another protocol. What clients can make the server hold is
// bounded by StoreLimits, and a request's memory is taken as its bytes arrive.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/net.h"

namespace ringwood {

struct StoreLimits {
  size_t connections;  // beside the unfinished handshakes (keyed_acceptor.h)
  size_t keys, bytes;  // of keys and values together
};
// For a job of so many ranks; 0: not known.
StoreLimits store_limits(int world_size);

// What both ends of a store's connection say in the handshake. Throws Error for a bad key file.
Identity store_identity(const Options& options, bool server);
Greeting store_greeting();

class StoreServer {
 public:
  virtual ~StoreServer() = default;
  // By which its own process reaches it: not every host is reached by its public name from within.
  virtual NetAddress address() const = 0;
};

// Listens on the addresses of `host` that are this machine's. Where a name means only loopback here
// (127.0.1.1 in /etc/hosts), or an address is not ours (behind a port forward), the other hosts may
// know it by another: then on loopback and on the addresses that this rank offers to its peers
// (choose_local_address), which is logged. On all addresses only if the options say so. Throws
// Error(network) naming the address.
std::unique_ptr<StoreServer> serve_store(const std::string& host, int port, const Options& options,
                                         int world_size);

}  // namespace ringwood

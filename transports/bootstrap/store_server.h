// The serving side of tcp_store: one thread, many clients.
//
// Every connection begins with the handshake (handshake.h, purpose store). With the key of
// RINGWOOD_KEY_FILE, a client learns nothing before it has proved that it knows the key; without,
// the key is well known and keeps out only other protocols and, by what they say of themselves,
// ranks of other jobs (strangers/job.h). The server draws a session, which its clients learn when
// they first connect: who comes again to a port that another server has got is refused. What
// clients can make the server keep is bounded by StoreLimits, and a request's memory is allocated
// as its bytes arrive. A get that waits is not limited: its client may wait for ranks that come in
// hours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "transports/base/clock.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/net.h"

namespace ringwood {

struct StoreLimits {
  size_t connections;  // not counting unfinished handshakes (keyed_acceptor.h)
  size_t keys, bytes;  // bytes: of keys and values together
  // Of requests that have not come whole, all clients together; at least one of the largest. Beyond
  // it, the client that has been silent in one for longest is disconnected.
  size_t unfinished_bytes;
  // For a client to send its first request, to send any request whole, and to read a reply.
  Duration time;
};
// For a job of so many ranks; 0: not known.
StoreLimits store_limits(int world_size);

// What the two ends of a store's connection send in the handshake; world size 0: not known. Throws
// Error for a bad key file.
Identity store_identity(const Options& options, bool server, int world_size = 0);
Greeting store_greeting();

class StoreServer {
 public:
  virtual ~StoreServer() = default;
  // The address for its own process: not every host can reach itself by its public name.
  virtual NetAddress address() const = 0;
};

// Listens on the addresses of `host` that are this machine's. If the name means only loopback here
// (127.0.1.1 in /etc/hosts), or an address is not this host's (behind a port forward), other hosts
// may know it by another address: then it listens on loopback and on the addresses that this rank
// offers to its peers (choose_local_address), and logs that. On all addresses only if the options
// say so. World size 0: not known.
//
// A port that others chose may be that of an outgoing connection, for the kernel gives those any
// port that is free. Where nobody listens there it is waited for, until the deadline, for 65 s at
// most: a connection that was closed keeps its port for 60 s. Throws Error(network) naming the
// address.
std::unique_ptr<StoreServer> serve_store(const std::string& host, int port, const Options& options,
                                         const StoreLimits& limits, int world_size = 0,
                                         Deadline deadline = Deadline::after(Duration::zero()));

}  // namespace ringwood

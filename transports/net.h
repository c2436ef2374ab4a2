// Names, interfaces, listening and dialling: everything about sockets that is not the data path.
// Asio underneath.
//
// One listening port per rank and communicator, open only while the group is being set up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/handshake.h"
#include "transports/options.h"

namespace ringwood {

// "10.0.0.1:4000" or "[fd00::1%eth0]:4000".
struct NetAddress {
  std::string host;
  int port = 0;
};
std::string to_string(const NetAddress& address);
NetAddress parse_net_address(const std::string& text);  // throws Error(invalid_argument)

// The numeric address that this rank offers to its peers, and why; the choice is logged (info).
//   1. the interface filter of the options, if any (no match: Error listing the interfaces);
//   2. else the source address of the route to `master` (a name or an address; "" = unknown);
//   3. never a loopback address when `several_hosts`: then the first address of an interface that
//   is up, is
//      not a bridge of containers (docker*, br-*, virbr*, veth*, cni*), IPv4 before IPv6,
//      link-local last.
struct AddressChoice {
  std::string host, interface, reason;
};
AddressChoice choose_local_address(const Options& options, const std::string& master,
                                   bool several_hosts);

// Accepts in the background; at most 64 handshakes pending, 5 s each; strangers are refused,
// counted and logged once.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual NetAddress address() const = 0;
  // The connection that a peer dialled with this greeting (from, purpose, channel); the caller owns
  // the fd, which is non-blocking, TCP_NODELAY and registered with close_on_fork. Any order, any
  // thread.
  virtual Result<int> take(const Greeting& greeting, Deadline deadline) = 0;
};
// Throws Error(network) naming the address and the range when no port is free.
std::unique_ptr<Listener> listen(const Identity& me, const std::string& host,
                                 const Options& options);

// Connects (retrying while refused, until the deadline) and shakes hands. The fd is as take()'s.
Result<int> dial(const NetAddress& address, const Identity& me, const Greeting& greeting,
                 Deadline deadline);

// What identifies a host to its ranks: boot id and network namespace. Two ranks with different
// tokens are never tried over shared memory; equal tokens are only a reason to try.
std::string host_token();
std::string host_name();

}  // namespace ringwood

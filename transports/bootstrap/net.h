// Names, interfaces, listening and dialling: everything about sockets that is not the data path.
// Asio underneath.
//
// One listening port per rank and communicator, open only while the group is being set up, at the
// addresses that the rank offers and at no other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/base/options.h"
#include "transports/bootstrap/handshake.h"

namespace ringwood {

// "10.0.0.1:4000" or "[fd00::1%eth0]:4000".
struct NetAddress {
  std::string host;
  int port = 0;
};
std::string to_string(const NetAddress& address);
NetAddress parse_net_address(const std::string& text);  // throws Error(invalid_argument)
// Those of one rank, with commas between them.
std::string to_string(const std::vector<NetAddress>& addresses);
std::vector<NetAddress> parse_net_addresses(const std::string& text);

// What a rank with the addresses `mine` dials to reach one with `theirs`: those of a family that it
// has itself, or all where it has none of them.
std::vector<NetAddress> addresses_to_dial(const std::string& mine, const std::string& theirs);
// All ranks' addresses and host names: throws Error(network) naming two ranks that have no family
// of addresses in common; the same on every rank.
void check_families(const std::vector<std::string>& addresses,
                    const std::vector<std::string>& host_names);

// The numeric address that this rank offers to its peers, and why; the choice is logged (info).
//   1. the interface filter of the options, if any (no match: Error listing the interfaces);
//   2. else the source address of the route to `master` (a name or an address; "" = unknown);
//   3. never a loopback address when `several_hosts`: then the first address of an interface that
//   is up, is
//      not a bridge of containers (docker*, br-*, virbr*, veth*, cni*), IPv4 before IPv6,
//      link-local last.
// `other_host`: an address of the other family for peers that have only that one, of the same
// interface if it has one, and never of a link or of loopback; "": none, or nobody needs it.
struct AddressChoice {
  std::string host, interface, reason, other_host;
};
AddressChoice choose_local_address(const Options& options, const std::string& master,
                                   bool several_hosts);

// Accepts in the background; strangers are refused (keyed_acceptor.h), counted and logged once.
class Listener {
 public:
  virtual ~Listener() = default;
  // In the order in which they were asked for; never all of the host's.
  virtual const std::vector<NetAddress>& addresses() const = 0;
  NetAddress address() const { return addresses().front(); }
  // The connection that a peer dialled with this greeting (from, purpose, channel); the caller owns
  // the fd, which is non-blocking, TCP_NODELAY and registered with close_on_fork. Any order, any
  // thread.
  virtual Result<int> take(const Greeting& greeting, Deadline deadline) = 0;
};
// With the same port at each of these addresses, and nowhere else. Throws Error(network) naming the
// address and the range when no port is free.
std::unique_ptr<Listener> listen(const Identity& me, const std::vector<std::string>& hosts,
                                 const Options& options);
std::unique_ptr<Listener> listen(const Identity& me, const std::string& host,
                                 const Options& options);

// Connects to the first address that works (retrying while refused, until the deadline) and shakes
// hands. The fd is as take()'s.
Result<int> dial(const std::vector<NetAddress>& addresses, const Identity& me,
                 const Greeting& greeting, Deadline deadline);
Result<int> dial(const NetAddress& address, const Identity& me, const Greeting& greeting,
                 Deadline deadline);

}  // namespace ringwood

// Names, interfaces, listening and dialling: all use of sockets except the data path. Asio
// underneath.
//
// There is one listening port per rank and communicator, open only while the group is being set up,
// at the addresses that the rank offers and at no other.
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
// The addresses of one rank, separated by commas.
std::string to_string(const std::vector<NetAddress>& addresses);
std::vector<NetAddress> parse_net_addresses(const std::string& text);

// The addresses that a rank with the addresses `mine` dials to reach one with `theirs`: those of a
// family that it has itself, or all if it has none of them.
std::vector<NetAddress> addresses_to_dial(const std::string& mine, const std::string& theirs);
// Takes all ranks' addresses and host names. Throws Error(network) naming two ranks that have no
// family of addresses in common; the result is the same on every rank.
void check_families(const std::vector<std::string>& addresses,
                    const std::vector<std::string>& host_names);

// The addresses by which other hosts can reach this one, whichever a rank offers: of interfaces
// that are up, without loopback, link-local ones and bridges of containers. At most `max`.
std::vector<std::string> host_addresses(size_t max);
// The host tokens of all ranks, changed so that only ranks of one host have equal ones. Machines
// that were made from one image of a running machine have one boot id, and so one token
// (host_token()); but a rank of another machine has none of this one's addresses. Ranks without any
// can be reached only by their own host. The result is the same on every rank. Pure.
std::vector<std::string> told_apart(const std::vector<std::string>& tokens,
                                    const std::vector<std::vector<std::string>>& addresses);

// The numeric address that this rank offers to its peers, and why; the choice is logged (info).
//   1. The interface filter of the options, if any (no match: Error listing the interfaces).
//   2. Else the source address of the route to `master` (a name or an address; "" = unknown).
//   3. Never a loopback address if `several_hosts`: then the first address of an interface that is
//      up and not a bridge of containers (docker*, br-*, virbr*, veth*, cni*), IPv4 before IPv6,
//      link-local last.
// `other_host`: an address of the other family for peers that have only that one, of the same
// interface if it has one, and never link-local or loopback; "": there is none, or no peer needs
// it.
struct AddressChoice {
  std::string host, interface, reason, other_host;
};
AddressChoice choose_local_address(const Options& options, const std::string& master,
                                   bool several_hosts);

// Accepts in the background; strangers are refused (keyed_acceptor.h), counted and logged once.
class Listener {
 public:
  virtual ~Listener() = default;
  // In the order in which they were requested; never all addresses of the host.
  virtual const std::vector<NetAddress>& addresses() const = 0;
  NetAddress address() const { return addresses().front(); }
  // The connection that a peer dialled with this greeting (from, purpose, channel). The caller owns
  // the fd, which is non-blocking, TCP_NODELAY and registered with close_on_fork. Any order, any
  // thread.
  virtual Result<int> take(const Greeting& greeting, Deadline deadline) = 0;
};
// Listens with the same port at each of these addresses, and nowhere else. Throws Error(network)
// naming the addresses and the range if no port is free.
std::unique_ptr<Listener> listen(const Identity& me, const std::vector<std::string>& hosts,
                                 const Options& options);
std::unique_ptr<Listener> listen(const Identity& me, const std::string& host,
                                 const Options& options);

// Connects to the first address that works (retrying while refused, until the deadline) and
// performs the handshake. The fd is as take()'s.
Result<int> dial(const std::vector<NetAddress>& addresses, const Identity& me,
                 const Greeting& greeting, Deadline deadline);
Result<int> dial(const NetAddress& address, const Identity& me, const Greeting& greeting,
                 Deadline deadline);

}  // namespace ringwood

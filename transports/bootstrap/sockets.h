// Internal to net, listener, store and control: socket addresses, and one connect with a deadline.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/options.h"
#include "transports/bootstrap/net.h"

namespace ringwood {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_loopback() const;
  bool is_any() const;
  bool is_link_local() const;  // fe80::/10 or 169.254/16
  NetAddress numeric() const;  // with "%interface" if it has a scope
  void set_port(int port);
  // "::" (with IPv4 in it) or "0.0.0.0".
  static SocketAddress any(int family, int port);
  // "::1" or "127.0.0.1" with the same port.
  SocketAddress loopback() const;
};

// All addresses of a name or number, in the system's order of preference. A link-local address
// whose scope is unknown on this host appears once per interface that could lead to it. Throws
// Error(network).
std::vector<SocketAddress> resolve(const std::string& host, int port);

// A connected descriptor: non-blocking, TCP_NODELAY, CLOEXEC and registered with close_on_fork.
// connect_once() tries the addresses in turn, once, for 3 s each at most: a lost first packet is
// sent again after 1, 3, 7 and 15 s, so that one who tries anew gets through sooner. `may_retry`:
// the failure may go away with time.
struct Connected {
  int fd = -1;
  std::string failure;
  bool may_retry = true;
};
Connected connect_once(const std::vector<SocketAddress>& addresses, Deadline deadline);

// A listening descriptor (non-blocking, closed in forked children), or -1 with errno.
int listen_on(const SocketAddress& at);

// Likewise; waits for an IPv6 address that an interface of this host has, but that cannot be bound
// yet: for a second or two the kernel tests whether somebody else has it.
int listen_when_tested(const SocketAddress& at);
// An interface of this host has it, tested or not.
bool is_of_interface(const SocketAddress& address);

// Somebody listens there. It is found out by a connection.
bool is_served(const SocketAddress& at);

// False for names.
bool is_numeric(const std::string& host);

// Where a store that is named so is served (serve_store, store_server.h).
std::vector<SocketAddress> addresses_to_serve(const std::string& host, int port,
                                              const Options& options);

// The address to which this process's socket is bound.
SocketAddress local_address(int fd);

// That of its peer; of 0 bytes if there is none.
SocketAddress remote_address(int fd);

// The next connection, set up as by connect_once(); -1 with errno, EAGAIN if there is none.
int accept_connection(int listening);
// -1 is allowed.
void close_connection(int fd) noexcept;

// The pause between retries: 2 ms, doubling up to 200 ms, never beyond the deadline.
class Backoff {
 public:
  void sleep(Deadline deadline);

 private:
  Duration next_ = std::chrono::milliseconds(2);
};

}  // namespace ringwood

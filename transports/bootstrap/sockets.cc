#include "transports/bootstrap/sockets.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include "transports/base/fork_guard.h"

namespace ringwood {
namespace {

// It takes 1 s after a random delay of up to 1 s, unless the administrator has set more.
constexpr Duration kDuplicateTest = std::chrono::seconds(5);
constexpr Duration kPatience = std::chrono::seconds(3);

template <class T>
T as(const SocketAddress& address) {
  T value;
  std::memcpy(&value, &address.storage, sizeof(T));
  return value;
}

uint32_t ipv4_of(const SocketAddress& address) {
  return ntohl(as<sockaddr_in>(address).sin_addr.s_addr);
}

// The interfaces that are up and have a link-local address themselves: such an address may be
// reached through each of them.
std::vector<unsigned> link_local_scopes() {
  std::vector<unsigned> scopes;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return scopes;
  for (ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET6 || !(one->ifa_flags & IFF_UP))
      continue;
    sockaddr_in6 address;
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) scopes.push_back(address.sin6_scope_id);
  }
  freeifaddrs(list);
  return scopes;
}

// The name of an interface has a meaning on its own host only: eth0 there may be ens3 here.
std::vector<SocketAddress> with_every_scope(const SocketAddress& address) {
  std::vector<SocketAddress> all;
  auto v6 = as<sockaddr_in6>(address);
  std::vector<unsigned> scopes = link_local_scopes();
  if (v6.sin6_scope_id != 0) scopes.insert(scopes.begin(), v6.sin6_scope_id);
  for (unsigned scope : scopes) {
    if (!all.empty() && scope == v6.sin6_scope_id) continue;
    SocketAddress one = address;
    auto scoped = v6;
    scoped.sin6_scope_id = scope;
    std::memcpy(&one.storage, &scoped, sizeof(scoped));
    all.push_back(one);
  }
  return all;
}

int open_socket(int family) {
  return open_guarded(
      [&] { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

// No effect on a Unix socket, which never delays.
void send_at_once(int fd) {
  int on = 1, error = errno;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  errno = error;
}

bool may_go_away(int error) {
  switch (error) {
    case ECONNREFUSED:  // not listening yet
    case ENETUNREACH:   // interface or route still coming up
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:  // no local port, or an IPv6 address that is still tentative
    case ETIMEDOUT:
    case ECONNRESET:
    case ECONNABORTED:
    case EAGAIN: return true;
    default: return false;
  }
}

// Returns 0, or the errno of the failure.
int finish_connect(int fd, const SocketAddress& to, Deadline deadline) {
  if (connect(fd, to.get(), to.bytes) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  for (;;) {
    pollfd one{fd, POLLOUT, 0};
    int ready = poll(&one, 1, deadline.left_ms());
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0) break;
    if (deadline.passed()) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t bytes = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

// A connect to a port of the kernel's own range on which no socket listens can connect to itself;
// both ends are then the same socket.
bool met_itself(int fd) {
  SocketAddress here, there;
  here.bytes = there.bytes = sizeof(sockaddr_storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.bytes) != 0) return false;
  return here.bytes == there.bytes && std::memcmp(&here.storage, &there.storage, here.bytes) == 0;
}

}  // namespace

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return ipv4_of(*this) >> 24 == 127;
  if (family() != AF_INET6) return false;
  auto v6 = as<sockaddr_in6>(*this);
  bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) || mapped;
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET) return ipv4_of(*this) == INADDR_ANY;
  auto v6 = as<sockaddr_in6>(*this);
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

SocketAddress SocketAddress::loopback() const {
  SocketAddress loopback = *this;
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&loopback.storage)->sin6_addr = in6addr_loopback;
  } else {
    reinterpret_cast<sockaddr_in*>(&loopback.storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  return loopback;
}

bool SocketAddress::is_link_local() const {
  if (family() == AF_INET) return ipv4_of(*this) >> 16 == 0xa9fe;
  if (family() != AF_INET6) return false;
  auto v6 = as<sockaddr_in6>(*this);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

NetAddress SocketAddress::numeric() const {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  getnameinfo(get(), bytes, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  NetAddress address{host, 0};
  std::from_chars(port, port + std::strlen(port), address.port);
  return address;
}

void SocketAddress::set_port(int port) {
  // The port is at the same offset in both families.
  reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(static_cast<uint16_t>(port));
}

SocketAddress SocketAddress::any(int family, int port) {
  SocketAddress any;
  any.storage.ss_family = static_cast<sa_family_t>(family);
  any.bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  any.set_port(port);
  return any;
}

bool is_numeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  freeaddrinfo(list);
  return true;
}

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  std::string name = host;
  addrinfo* list = nullptr;
  int error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (size_t percent = name.find('%'); error != 0 && percent != name.npos) {
    name.resize(percent);  // the scope is not one of this host's interfaces
    error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  }
  if (error != 0) {
    throw Error(ErrorCode::network, fmt::format("cannot resolve the host \"{}\": {}", host,
                                                error == EAI_SYSTEM ? system_message("getaddrinfo")
                                                                    : gai_strerror(error)));
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (addrinfo* one = list; one; one = one->ai_next) {
    SocketAddress address;
    if (one->ai_addrlen > sizeof(address.storage)) continue;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.bytes = one->ai_addrlen;
    bool scoped = address.family() == AF_INET6 && address.is_link_local();
    auto all = scoped ? with_every_scope(address) : std::vector{address};
    addresses.insert(addresses.end(), all.begin(), all.end());
  }
  if (addresses.empty()) {
    throw Error(ErrorCode::network,
                fmt::format("no interface here leads to the link-local address {}", host));
  }
  return addresses;
}

Connected connect_once(const std::vector<SocketAddress>& addresses, Deadline deadline) {
  Connected result;
  result.may_retry = false;
  for (const SocketAddress& to : addresses) {
    // It may drop everything, and must not use up the time of the others, or its queue was full.
    const auto limit = deadline.within(kPatience);
    int fd = open_socket(to.family());
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
      send_at_once(fd);
      error = finish_connect(fd, to, limit);
      if (error == 0 && met_itself(fd)) error = ECONNREFUSED;
      if (error == 0) {
        result.fd = fd;
        return result;
      }
      close_connection(fd);
    }
    result.failure = system_message("connect", error);
    result.may_retry = result.may_retry || may_go_away(error);
  }
  return result;
}

int listen_on(const SocketAddress& at) {
  int fd = open_socket(at.family());
  if (fd < 0) return -1;
  int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at.family() == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd, at.get(), at.bytes) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  int error = errno;
  close_connection(fd);
  errno = error;
  return -1;
}

int listen_when_tested(const SocketAddress& at) {
  const Deadline patience = Deadline::after(kDuplicateTest);
  for (Backoff backoff;;) {
    const int fd = listen_on(at);
    if (fd >= 0 || errno != EADDRNOTAVAIL || at.family() != AF_INET6) return fd;
    if (patience.passed() || !is_of_interface(at)) return errno = EADDRNOTAVAIL, -1;
    backoff.sleep(patience);
  }
}

bool is_served(const SocketAddress& at) {
  const SocketAddress to = at.is_any() ? at.loopback() : at;
  const Connected tried = connect_once({to}, Deadline::after(kPatience));
  close_connection(tried.fd);
  return tried.fd >= 0;
}

SocketAddress local_address(int fd) {
  SocketAddress here;
  here.bytes = sizeof(here.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes);
  return here;
}

SocketAddress remote_address(int fd) {
  SocketAddress there;
  there.bytes = sizeof(there.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.bytes) != 0)
    there.bytes = 0;
  return there;
}

int accept_connection(int listening) {
  int fd = open_guarded(
      [&] { return accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (fd >= 0) send_at_once(fd);
  return fd;
}

void close_connection(int fd) noexcept {
  if (fd >= 0) close_and_forget(fd);
}

void Backoff::sleep(Deadline deadline) {
  std::this_thread::sleep_for(std::min(next_, deadline.left()));
  next_ = std::min<Duration>(next_ * 2, std::chrono::milliseconds(200));
}

}  // namespace ringwood

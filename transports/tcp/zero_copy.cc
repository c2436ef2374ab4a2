#include "transports/tcp/zero_copy.h"

#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

namespace ringwood::tcp {
namespace {

bool same_address(const sockaddr_storage& here, const sockaddr* there) {
  if (there == nullptr || there->sa_family != here.ss_family) return false;
  if (here.ss_family == AF_INET) {
    sockaddr_in a, b;
    std::memcpy(&a, &here, sizeof a);
    std::memcpy(&b, there, sizeof b);
    return a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  sockaddr_in6 a, b;
  std::memcpy(&a, &here, sizeof a);
  std::memcpy(&b, there, sizeof b);
  return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

// "::ffff:10.0.0.1" is an IPv4 address written as IPv6.
void unmap(sockaddr_storage& address) {
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, 4);
  std::memcpy(&address, &v4, sizeof v4);
}

bool address_of(decltype(::getsockname) which, int fd, sockaddr_storage& address) {
  socklen_t bytes = sizeof address;
  if (which(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return false;
  unmap(address);
  return true;
}

}  // namespace

bool leaves_by_hardware(int fd) {
  sockaddr_storage here{}, there{};
  if (!address_of(::getsockname, fd, here) || !address_of(::getpeername, fd, there)) return false;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  bool hardware = false;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    // What goes to an address of this host passes no card, whichever card has the address.
    if (same_address(there, one->ifa_addr)) return false;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || !same_address(here, one->ifa_addr)) continue;
    hardware |=
        ::access((std::string("/sys/class/net/") + one->ifa_name + "/device").c_str(), F_OK) == 0;
  }
  return hardware;
}

void ZeroCopy::start(int fd) {
  const int on = 1;
  on_ = ::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

uint64_t ZeroCopy::call_made() {
  open_.push(0);
  return finished_ + open_.size();
}

uint64_t ZeroCopy::collect(int fd) {
  while (!open_.empty()) {
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
      const bool about_errors = (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                                (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
      if (!about_errors) continue;
      sock_extended_err said;
      std::memcpy(&said, CMSG_DATA(c), sizeof said);
      if (said.ee_origin != SO_EE_ORIGIN_ZEROCOPY || said.ee_errno != 0) continue;
      if ((said.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) on_ = false;
      finish(said.ee_info, said.ee_data);
    }
  }
  return finished_;
}

// The kernel's numbers begin with 0 and wrap at 2^32; ranges may come in any order.
void ZeroCopy::finish(uint32_t first, uint32_t last) {
  const uint32_t begin = first - static_cast<uint32_t>(finished_);
  const uint32_t end = last - static_cast<uint32_t>(finished_);
  for (uint64_t i = begin; i <= end && i < open_.size(); ++i) open_[i] = 1;
  for (; !open_.empty() && open_.front() != 0; open_.pop()) ++finished_;
}

}  // namespace ringwood::tcp

#include "transports/shm/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/shm/shared_region.h"

namespace ringwood::shm {
namespace {

// Returns when `fd` can be read (or written). Throws at the deadline.
void await(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd wanted{fd, events, 0};
    const int ready = ::poll(&wanted, 1, deadline.left_ms());
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail_set_up(system_message("poll"));
    if (deadline.passed()) fail_set_up("the other side of the Unix socket did not answer in time");
  }
}

void collect_fds(msghdr& message, std::vector<OwnedFd>& fds) {
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof fd);
      close_on_fork(fd);
      fds.emplace_back(fd);
    }
  }
}

OwnedFd unix_socket(const std::string& name, sockaddr_un& address, socklen_t& length) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof address.sun_path - 1));
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  OwnedFd fd(open_guarded(
      [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  if (!fd) fail_set_up(system_message("socket(AF_UNIX)"));
  return fd;
}

}  // namespace

OwnedFd listen_at(const std::string& name) {
  sockaddr_un address;
  socklen_t length;
  OwnedFd fd = unix_socket(name, address, length);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    fail_set_up(system_message("bind(AF_UNIX)"));
  if (::listen(fd.get(), 1024) != 0) fail_set_up(system_message("listen(AF_UNIX)"));
  return fd;
}

OwnedFd connect_to(const std::string& name, Deadline deadline) {
  sockaddr_un address;
  socklen_t length;
  OwnedFd fd = unix_socket(name, address, length);
  while (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN && !deadline.passed()) {  // the leader's queue is full
      ::poll(nullptr, 0, 1);
    } else if (errno != EINTR) {
      fail_set_up(system_message("connecting to the Unix socket of the host's lowest rank"));
    }
  }
  return fd;
}

void send_message(int fd, const void* data, size_t bytes, std::span<const int> fds,
                  Deadline deadline) {
  const auto* next = static_cast<const char*>(data);
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsPerMessage * sizeof(int))] = {};
  while (bytes > 0) {
    iovec part{const_cast<char*>(next), bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        fail_set_up(system_message("sendmsg on the Unix socket"));
      await(fd, POLLOUT, deadline);
      continue;
    }
    fds = {};
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

std::vector<OwnedFd> receive_message(int fd, void* data, size_t bytes, Deadline deadline) {
  std::vector<OwnedFd> fds;
  auto* next = static_cast<char*>(data);
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsPerMessage * sizeof(int))];
  while (bytes > 0) {
    iovec part{next, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR)
        fail_set_up(system_message("recvmsg on the Unix socket"));
      await(fd, POLLIN, deadline);
      continue;
    }
    if (got == 0) fail_set_up("the other side closed the Unix socket");
    collect_fds(message, fds);
    if (message.msg_flags & MSG_CTRUNC) {
      fail_set_up("too many open files to take those of all ranks; raise ulimit -n");
    }
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return fds;
}

}  // namespace ringwood::shm

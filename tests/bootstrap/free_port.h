// A port for a server that must be known before it exists.
#pragma once

#include <sys/socket.h>

#include <utility>
#include <vector>

#include "transports/base/owned_fd.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood::testing {

// Chosen by the kernel, at 127.0.0.1. Until this process ends the kernel gives it to nobody else: a
// socket stays bound to it, which does not listen, so that servers with SO_REUSEADDR can.
// `wanted`: that one, or 0 if it is not free.
inline int free_port(int wanted = 0) {
  static std::vector<OwnedFd> bound;
  OwnedFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const SocketAddress at = resolve("127.0.0.1", wanted).front();
  if (::setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(one.get(), at.get(), at.bytes) != 0) {
    if (wanted != 0) return 0;
    throw Error(ErrorCode::system, system_message("bind"));
  }
  return local_address(bound.emplace_back(std::move(one)).get()).numeric().port;
}

}  // namespace ringwood::testing

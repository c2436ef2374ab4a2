// A connection of this process with itself, for tests of what the kernel does with one.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <utility>

#include "transports/base/owned_fd.h"

namespace ringwood {

// Its two ends, at an IPv4 address of this host: by default that of the loopback, where the kernel
// copies zero-copy sends.
inline std::array<OwnedFd, 2> connection(const sockaddr* here = nullptr) {
  OwnedFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (here) std::memcpy(&at, here, sizeof at);
  socklen_t bytes = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  EXPECT_EQ(::bind(listener.get(), address, bytes), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), address, &bytes), 0);
  OwnedFd dialler(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::connect(dialler.get(), address, bytes), 0);
  return {OwnedFd(::accept(listener.get(), nullptr, nullptr)), std::move(dialler)};
}

}  // namespace ringwood

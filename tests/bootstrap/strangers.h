// Connections to the ports of a job that do not belong to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/processes.h"
#include "transports/bootstrap/handshake.h"
#include "transports/bootstrap/keyed_acceptor.h"
#include "transports/bootstrap/sockets.h"
#include "transports/bootstrap/store_server.h"

namespace ringwood::testing {

// A connection of this process; closed at its end.
class Stranger {
 public:
  explicit Stranger(int port, const std::string& host = "127.0.0.1") {
    Connected connected = connect_once(resolve(host, port), patiently());
    EXPECT_GE(connected.fd, 0) << connected.failure;
    fd_ = connected.fd;
  }
  static Stranger of(int fd) { return Stranger(Taken{fd}); }
  ~Stranger() { close_connection(fd_); }
  Stranger(Stranger&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Stranger& operator=(Stranger&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

  void say(const std::string& bytes) const { (void)!send(fd_, bytes.data(), bytes.size(), kFlags); }
  // Speaks our protocol to a store, as anybody with these sources but without the key can.
  Status enter_store(const Options& options = {}) const {
    return dial_handshake(fd_, store_identity(options, false), store_greeting(), patiently());
  }
  // All that comes until the other side closes; "(open)" is added if it does not.
  std::string hear(Deadline deadline = patiently()) const {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd one{fd_, POLLIN, 0};
      if (poll(&one, 1, deadline.left_ms()) <= 0) return text + "(open)";
      const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
      if (got <= 0) return text;
      text.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  struct Taken {
    int fd;
  };
  explicit Stranger(Taken taken) : fd_(taken.fd) {}
  static constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  int fd_ = -1;
};

// A file with a good secret.
class KeyFile {
 public:
  KeyFile() {
    const int fd = open(place_.path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const auto key = random_key();
    EXPECT_EQ(write(fd, key.data(), key.size()), static_cast<ssize_t>(key.size()));
    close(fd);
  }
  const std::string& path() const { return place_.path(); }
  Options options() const {
    Options options;
    options.key_file = place_.path();
    return options;
  }

 private:
  TemporaryPath place_;
};

inline long count_descriptors(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return std::distance(begin(all), end(all));
}

inline size_t resident_bytes(pid_t pid) {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace ringwood::testing

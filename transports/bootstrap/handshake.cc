#include "transports/bootstrap/handshake.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "transports/bootstrap/handshake_steps.h"
#include "transports/bootstrap/private_file.h"

namespace ringwood {
namespace {

constexpr size_t kMinSecret = 32, kMaxSecret = 4096, kMinDifferentBytes = 10;

Status wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    int ready = poll(&one, 1, deadline.left_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Error(ErrorCode::system, system_message("poll"));
    if (deadline.passed())
      return Error(ErrorCode::timeout, "the other side did not finish the handshake in time");
  }
}

Status failed_call(const char* call) {
  return Error(ErrorCode::network, "the handshake was cut short: " + system_message(call));
}

Status send_all(int fd, std::span<const uint8_t> data, Deadline deadline) {
  while (!data.empty()) {
    ssize_t sent = send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      data = data.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Status s = wait_for(fd, POLLOUT, deadline); !s) return s;
    } else if (errno != EINTR) {
      return failed_call("send");
    }
  }
  return {};
}

Status recv_all(int fd, std::span<uint8_t> data, Deadline deadline) {
  while (!data.empty()) {
    ssize_t got = recv(fd, data.data(), data.size(), MSG_DONTWAIT);
    if (got > 0) {
      data = data.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return Error(ErrorCode::network, "the other side closed the connection during the handshake");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Status s = wait_for(fd, POLLIN, deadline); !s) return s;
    } else if (errno != EINTR) {
      return failed_call("recv");
    }
    // A peer that sends one byte at a time never makes poll() wait.
    if (!data.empty() && deadline.passed()) {
      return Error(ErrorCode::timeout, "the other side did not finish the handshake in time");
    }
  }
  return {};
}

Status answer_all(int fd, DialSteps& steps, Deadline deadline) {
  while (steps.wanted() > 0) {
    Bytes message(steps.wanted());
    if (Status s = recv_all(fd, message, deadline); !s) return s;
    Bytes answer = steps.take(message);
    if (Status s = send_all(fd, answer, deadline); !s) return s;
  }
  return {};
}

}  // namespace

Status dial_handshake(int fd, const Identity& me, const Greeting& greeting, Deadline deadline,
                      std::array<uint8_t, 16>* session) {
  DialSteps steps(me, greeting);
  // A side that refuses at once may have closed by now; why is still to be read.
  Status sent = send_all(fd, steps.hello(), deadline);
  if (!sent && sent.error().code != ErrorCode::network) return sent;
  if (Status s = answer_all(fd, steps, deadline); !s) return sent ? std::move(s) : std::move(sent);
  if (session && steps.result()) *session = steps.session();
  return steps.result();
}

namespace {

template <size_t n>
std::array<uint8_t, n> random_bytes() {
  std::array<uint8_t, n> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(n)) != 1) {
    throw Error(ErrorCode::system, "OpenSSL has no random numbers; is /dev/urandom readable?");
  }
  return bytes;
}

[[noreturn]] void bad_key_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("key file {}: {}; make one with: (umask 077; head -c 32 /dev/urandom > "
                          "\"{}\") and copy it to all hosts",
                          path, why, path));
}

// 32 random bytes, or as many random hexadecimal digits, have more different values than this.
bool looks_random(const std::string& secret) {
  return std::set<char>(secret.begin(), secret.end()).size() >= kMinDifferentBytes;
}

std::string objection_to(const std::string& secret) {
  if (secret.size() < kMinSecret || secret.size() > kMaxSecret)
    return fmt::format("a secret has {} to {} random bytes", kMinSecret, kMaxSecret);
  return looks_random(secret) ? "" : "its content is not random";
}

// Reads one secret, bounded by its limit.
std::string read_secret(const std::string& path) {
  const auto [file, refused] = open_private_file(path, O_RDONLY);
  if (!file) bad_key_file(path, refused);
  std::string secret(kMaxSecret + 1, '\0');
  const ssize_t bytes = read(file.get(), secret.data(), secret.size());
  if (bytes < 0) bad_key_file(path, system_message("read"));
  secret.resize(static_cast<size_t>(bytes));
  if (const std::string why = objection_to(secret); !why.empty()) bad_key_file(path, why);
  return secret;
}

}  // namespace

std::array<uint8_t, 32> random_key() { return random_bytes<32>(); }
std::array<uint8_t, 16> random_session() { return random_bytes<16>(); }

std::array<uint8_t, 32> key_from_file(const std::string& path) {
  std::string secret = read_secret(path);
  std::array<uint8_t, 32> key;
  unsigned bytes = key.size();
  if (EVP_Digest(secret.data(), secret.size(), key.data(), &bytes, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::internal, "OpenSSL cannot compute a SHA-256");
  }
  return key;
}

}  // namespace ringwood

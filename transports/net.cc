#include "transports/net.h"

#include <fmt/core.h>

#include <charconv>

#include "transports/sockets.h"

namespace ringwood {

std::string to_string(const NetAddress& address) {
  if (address.host.find(':') == std::string::npos)
    return fmt::format("{}:{}", address.host, address.port);
  return fmt::format("[{}]:{}", address.host, address.port);
}

NetAddress parse_net_address(const std::string& text) {
  auto refuse = [&] {
    return Error(ErrorCode::invalid_argument,
                 fmt::format("\"{}\" is no address; expected host:port or [IPv6]:port", text));
  };
  NetAddress address;
  size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) throw refuse();
  address.host = text.substr(0, colon);
  bool bracketed = address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  // "::1:80" could mean two things.
  if (address.host.empty() || (!bracketed && address.host.find(':') != text.npos)) throw refuse();
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(first, last, address.port);
  if (error != std::errc() || end != last || address.port < 0 || address.port > 65535)
    throw refuse();
  return address;
}

namespace {

// Matches the acceptor's patience; then the connection is worth a new try.
constexpr Duration kHandshakeTime = std::chrono::seconds(5);

Error dial_failed(const NetAddress& address, const Identity& me, const Greeting& greeting,
                  Clock::time_point began, ErrorCode code, const std::string& cause) {
  double waited = std::chrono::duration<double>(Clock::now() - began).count();
  Error error(code, fmt::format("cannot connect to rank {} at {} within {:.1f} s: {}", greeting.to,
                                to_string(address), waited, cause));
  error.rank = me.rank;
  error.host = host_name();
  error.peer = greeting.to;
  return error;
}

bool may_retry(ErrorCode code) { return code == ErrorCode::network || code == ErrorCode::timeout; }

}  // namespace

Result<int> dial(const NetAddress& address, const Identity& me, const Greeting& greeting,
                 Deadline deadline) {
  auto began = Clock::now();
  Backoff backoff;
  for (;;) {
    ErrorCode code = ErrorCode::network;
    std::string cause;
    bool again = true;
    try {
      Connected connected = connect_once(resolve(address.host, address.port), deadline);
      cause = connected.failure;
      again = connected.may_retry;
      if (connected.fd >= 0) {
        auto limit = deadline.within(kHandshakeTime);
        Status shaken = dial_handshake(connected.fd, me, greeting, limit);
        if (shaken.ok()) return connected.fd;
        close_connection(connected.fd);
        code = shaken.error().code;
        cause = shaken.error().cause;
        again = may_retry(code);
      }
    } catch (const Error& error) {
      code = error.code;
      cause = error.cause;
    }
    if (!again || deadline.passed()) return dial_failed(address, me, greeting, began, code, cause);
    backoff.sleep(deadline);
  }
}

}  // namespace ringwood

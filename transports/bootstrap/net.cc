#include "transports/bootstrap/net.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>

#include "transports/base/host.h"
#include "transports/base/log.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {

std::string to_string(const NetAddress& address) {
  if (address.host.find(':') == std::string::npos)
    return fmt::format("{}:{}", address.host, address.port);
  return fmt::format("[{}]:{}", address.host, address.port);
}

NetAddress parse_net_address(const std::string& text) {
  auto refuse = [&] {
    return Error(ErrorCode::invalid_argument,
                 fmt::format("\"{}\" is not an address; expected host:port or [IPv6]:port", text));
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

std::string to_string(const std::vector<NetAddress>& addresses) {
  std::string text;
  for (const NetAddress& address : addresses)
    text += (text.empty() ? "" : ",") + to_string(address);
  return text;
}

std::vector<NetAddress> parse_net_addresses(const std::string& text) {
  std::vector<NetAddress> addresses;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    addresses.push_back(parse_net_address(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return addresses;
}

namespace {

bool is_ipv6(const NetAddress& address) { return address.host.find(':') != address.host.npos; }

// Bit 0: IPv4, bit 1: IPv6.
unsigned families_of(const std::vector<NetAddress>& addresses) {
  unsigned families = 0;
  for (const NetAddress& address : addresses) families |= is_ipv6(address) ? 2 : 1;
  return families;
}

}  // namespace

std::vector<NetAddress> addresses_to_dial(const std::string& mine, const std::string& theirs) {
  const std::vector<NetAddress> all = parse_net_addresses(theirs);
  const unsigned own = mine.empty() ? 3 : families_of(parse_net_addresses(mine));
  std::vector<NetAddress> common;
  std::copy_if(all.begin(), all.end(), std::back_inserter(common),
               [&](const NetAddress& one) { return (own & families_of({one})) != 0; });
  return common.empty() ? all : common;
}

void check_families(const std::vector<std::string>& addresses,
                    const std::vector<std::string>& host_names) {
  // The first rank that offers this family only; addresses.size() if there is none.
  const auto only = [&](unsigned family) {
    size_t rank = 0;
    while (rank < addresses.size() && families_of(parse_net_addresses(addresses[rank])) != family)
      ++rank;
    return rank;
  };
  const size_t v4 = only(1), v6 = only(2);
  if (std::max(v4, v6) == addresses.size()) return;
  throw Error(ErrorCode::network,
              fmt::format("rank {} on {} has only IPv4 ({}) and rank {} on {} only IPv6 ({}), so "
                          "they cannot reach each other; give their hosts addresses of one family, "
                          "or name the interfaces that have them with RINGWOOD_SOCKET_IFNAME",
                          v4, host_names[v4], addresses[v4], v6, host_names[v6], addresses[v6]));
}

std::vector<std::string> told_apart(const std::vector<std::string>& tokens,
                                    const std::vector<std::vector<std::string>>& addresses) {
  const auto on_one_host = [&](size_t a, size_t b) {
    return addresses[a].empty() || addresses[b].empty() ||
           std::ranges::find_first_of(addresses[a], addresses[b]) != addresses[a].end();
  };
  std::map<std::string, std::vector<size_t>> hosts;  // by token: a rank of each host
  std::vector<std::string> result;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    std::vector<size_t>& known = hosts[tokens[rank]];
    const auto at = std::ranges::find_if(known, [&](size_t one) { return on_one_host(one, rank); });
    const auto number = at - known.begin();
    if (at == known.end()) known.push_back(rank);
    result.push_back(tokens[rank] + (number == 0 ? "" : fmt::format(" machine {}", number + 1)));
  }
  return result;
}

namespace {

// Equal to the acceptor's patience; after that the connection is worth a new try.
constexpr Duration kHandshakeTime = std::chrono::seconds(5);

Error dial_failed(const std::vector<NetAddress>& addresses, const Identity& me,
                  const Greeting& greeting, Clock::time_point began, ErrorCode code,
                  const std::string& cause) {
  double waited = seconds_since(began);
  Error error(code, fmt::format("cannot connect to rank {} at {} within {:.1f} s: {}", greeting.to,
                                to_string(addresses), waited, cause));
  error.rank = me.rank;
  error.host = host_name();
  error.peer = greeting.to;
  return error;
}

std::vector<SocketAddress> resolve_all(const std::vector<NetAddress>& addresses) {
  std::vector<SocketAddress> all;
  for (const NetAddress& address : addresses)
    for (const SocketAddress& one : resolve(address.host, address.port)) all.push_back(one);
  return all;
}

bool may_retry(ErrorCode code) { return code == ErrorCode::network || code == ErrorCode::timeout; }

}  // namespace

Result<int> dial(const NetAddress& address, const Identity& me, const Greeting& greeting,
                 Deadline deadline) {
  return dial(std::vector{address}, me, greeting, deadline);
}

Result<int> dial(const std::vector<NetAddress>& addresses, const Identity& me,
                 const Greeting& greeting, Deadline deadline) {
  auto began = Clock::now();
  Backoff backoff;
  for (int attempt = 1;; ++attempt) {
    ErrorCode code = ErrorCode::network;
    std::string cause;
    bool again = true;
    try {
      Connected connected = connect_once(resolve_all(addresses), deadline);
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
    if (!again || deadline.passed())
      return dial_failed(addresses, me, greeting, began, code, cause);
    if (log_shows(LogLevel::debug))
      log(LogLevel::debug, "net",
          fmt::format("attempt {} to connect to rank {} at {} failed: {}; tries for {:.1f} s more",
                      attempt, greeting.to, to_string(addresses), cause,
                      seconds_in(deadline.left())));
    backoff.sleep(deadline);
  }
}

}  // namespace ringwood

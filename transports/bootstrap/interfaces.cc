// Chooses the address that a rank offers to its peers, and those at which a store is served.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "transports/base/log.h"
#include "transports/bootstrap/sockets.h"

namespace ringwood {
namespace {

struct Interface {
  std::string name;
  SocketAddress address;
  std::string host;  // numeric
  bool up = false;
};

std::vector<Interface> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw Error(ErrorCode::system, system_message("getifaddrs"));
  std::vector<Interface> all;
  for (ifaddrs* one = list; one; one = one->ifa_next) {
    int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface found;
    found.name = one->ifa_name;
    found.address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&found.address.storage, one->ifa_addr, found.address.bytes);
    found.host = found.address.numeric().host;
    found.up = (one->ifa_flags & IFF_UP) && (one->ifa_flags & IFF_RUNNING);
    all.push_back(std::move(found));
  }
  freeifaddrs(list);
  return all;
}

std::string describe(const std::vector<Interface>& all) {
  std::vector<std::string> names;
  for (const Interface& one : all) names.push_back(fmt::format("{} {}", one.name, one.host));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool is_container_bridge(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"docker", "br-",     "virbr", "veth",
                                            "cni",    "flannel", "cali",  "podman"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return begins_with(name, prefix); });
}

// One item of the filter: a name, a prefix of names, or a network.
class Pattern {
 public:
  Pattern(std::string text, bool exact) : text_(std::move(text)), exact_(exact) {
    size_t slash = text_.find('/');
    std::string number = text_.substr(0, slash);
    if (inet_pton(AF_INET, number.c_str(), network_) == 1) family_ = AF_INET;
    if (inet_pton(AF_INET6, number.c_str(), network_) == 1) family_ = AF_INET6;
    int most = family_ == AF_INET ? 32 : 128;
    bits_ = most;
    if (slash == text_.npos) return;
    auto [end, error] =
        std::from_chars(text_.data() + slash + 1, text_.data() + text_.size(), bits_);
    bool number_ok = error == std::errc() && end == text_.data() + text_.size();
    if (family_ == AF_UNSPEC || !number_ok || bits_ < 0 || bits_ > most) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("RINGWOOD_SOCKET_IFNAME: \"{}\" is not a network such as 10.0.0.0/8", text_));
    }
  }

  bool matches(const Interface& one) const {
    if (family_ == AF_UNSPEC) return exact_ ? one.name == text_ : begins_with(one.name, text_);
    if (one.address.family() != family_) return false;
    uint8_t bytes[16] = {};
    size_t offset =
        family_ == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    std::memcpy(bytes, reinterpret_cast<const uint8_t*>(&one.address.storage) + offset,
                family_ == AF_INET ? 4 : 16);
    for (int bit = 0; bit < bits_; ++bit) {
      if (((bytes[bit / 8] ^ network_[bit / 8]) >> (7 - bit % 8)) & 1) return false;
    }
    return true;
  }

 private:
  std::string text_;
  bool exact_;
  int family_ = AF_UNSPEC;
  int bits_ = 0;
  uint8_t network_[16] = {};
};

// "^" and "=" at the beginning apply to the whole list, as in NCCL; "=" may also precede each name.
class Filter {
 public:
  explicit Filter(std::string text) {
    exclude_ = begins_with(text, "^");
    if (exclude_) text.erase(0, 1);
    bool exact = begins_with(text, "=");
    for (size_t at = 0; at < text.size();) {
      size_t comma = std::min(text.find(',', at), text.size());
      std::string item = text.substr(at, comma - at);
      bool own = begins_with(item, "=");
      if (item.size() > own) patterns_.emplace_back(item.substr(own), exact || own);
      at = comma + 1;
    }
  }
  bool empty() const { return patterns_.empty(); }
  bool passes(const Interface& one) const {
    bool any = std::any_of(patterns_.begin(), patterns_.end(),
                           [&](const Pattern& p) { return p.matches(one); });
    return any != exclude_;
  }
  // The filter names interfaces rather than excluding some.
  bool selects() const { return !empty() && !exclude_; }

 private:
  bool exclude_ = false;
  std::vector<Pattern> patterns_;
};

// The source address that the kernel would use towards `to`; nothing is sent.
std::optional<std::string> route_source(const SocketAddress& to) {
  int fd = socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  SocketAddress here;
  here.bytes = sizeof(here.storage);
  bool known = connect(fd, to.get(), to.bytes) == 0 &&
               getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.bytes) == 0;
  close(fd);
  if (!known) return std::nullopt;
  return here.numeric().host;
}

struct Route {
  std::string host;    // "" if there is none
  std::string remark;  // what was passed over, or why there is none
};

Route route_to(const std::string& master, bool several_hosts) {
  constexpr int kAnyPort = 9;  // a UDP connect needs one; nothing is sent to it
  if (master.empty()) return {"", "the master's address is not known"};
  Route route;
  try {
    for (const SocketAddress& to : resolve(master, kAnyPort)) {
      auto source = route_source(to);
      std::string there = to.numeric().host;
      if (!source) {
        route.remark = fmt::format("there is no route to {}", there);
      } else if (several_hosts && to.is_loopback()) {
        route.remark =
            fmt::format("{} means {} here, which other hosts cannot reach", master, there);
      } else {
        return {*source, ""};
      }
    }
  } catch (const Error& error) {
    route.remark = error.cause;
  }
  return route;
}

// Lower is better; nullopt: never.
std::optional<int> rank_of(const Interface& one, const Filter& filter, bool several_hosts) {
  bool loopback = one.address.is_loopback();
  if (!one.up || (loopback && several_hosts)) return std::nullopt;
  if (!filter.empty() && !filter.passes(one)) return std::nullopt;
  if (!filter.selects() && is_container_bridge(one.name)) return std::nullopt;
  int rank = one.address.family() == AF_INET ? 0 : 1;
  if (one.address.is_link_local()) rank += 2;
  // On a single host, loopback needs no interface to stay up; a filter that excludes others prefers
  // them.
  if (loopback) rank = filter.empty() ? -1 : 4;
  return rank;
}

struct Candidate {
  const Interface* interface = nullptr;
  std::string reason;
};

Candidate choose(const std::vector<Interface>& all, const Filter& filter, const Route& route,
                 bool several_hosts) {
  const Interface* best = nullptr;
  int best_rank = 0;
  for (const Interface& one : all) {
    bool on_route = !route.host.empty() && one.host == route.host;
    if (on_route && (filter.empty() || filter.passes(one)) &&
        !(several_hosts && one.address.is_loopback())) {
      return {&one, "the route to the master leaves here"};
    }
    auto rank = rank_of(one, filter, several_hosts);
    if (rank && (!best || *rank < best_rank)) best = &one, best_rank = *rank;
  }
  if (!best) return {};
  if (!filter.empty()) return {best, "the interface filter allows it"};
  if (route.remark.empty()) {
    return {best, fmt::format("the route's own address {} is on no interface", route.host)};
  }
  return {best, fmt::format("{}, so the first usable interface is taken", route.remark)};
}

// For peers that do not have the family of `chosen`.
std::string of_other_family(const std::vector<Interface>& all, const Filter& filter,
                            const Interface& chosen) {
  const Interface* best = nullptr;
  int best_rank = 0;
  for (const Interface& one : all) {
    if (one.address.family() == chosen.address.family()) continue;
    auto rank = rank_of(one, filter, true);
    if (!rank || one.address.is_link_local()) continue;
    if (one.name == chosen.name) *rank -= 10;
    if (!best || *rank < best_rank) best = &one, best_rank = *rank;
  }
  return best ? best->host : "";
}

[[noreturn]] void nothing_found(const Options& options, const Route& route,
                                const std::vector<Interface>& all) {
  std::string why = route.remark;
  if (!options.socket_interface.empty()) {
    why = fmt::format("RINGWOOD_SOCKET_IFNAME={} leaves nothing that other hosts could reach",
                      options.socket_interface);
  }
  throw Error(
      ErrorCode::network,
      fmt::format("no interface to offer: {}; there are {}; name one with RINGWOOD_SOCKET_IFNAME",
                  why, all.empty() ? "none" : describe(all)));
}

}  // namespace

bool is_of_interface(const SocketAddress& address) {
  const std::string host = address.numeric().host;
  const std::vector<Interface> all = list_interfaces();
  return std::any_of(all.begin(), all.end(),
                     [&](const Interface& one) { return one.host == host; });
}

std::vector<std::string> host_addresses(size_t max) {
  std::vector<std::string> all;
  for (const Interface& one : list_interfaces())
    if (all.size() < max && !one.address.is_link_local() && rank_of(one, Filter(""), true))
      all.push_back(one.host);
  return all;
}

AddressChoice choose_local_address(const Options& options, const std::string& master,
                                   bool several_hosts) {
  std::vector<Interface> all = list_interfaces();
  Filter filter(options.socket_interface);
  Route route = route_to(master, several_hosts);
  Candidate chosen = choose(all, filter, route, several_hosts);
  if (!chosen.interface) nothing_found(options, route, all);
  AddressChoice choice{chosen.interface->host, chosen.interface->name, chosen.reason, ""};
  if (several_hosts) choice.other_host = of_other_family(all, filter, *chosen.interface);
  all.erase(all.begin() + (chosen.interface - all.data()));
  log(LogLevel::info, "net",
      fmt::format("offering {} ({}){}: {}; passed over: {}", choice.host, choice.interface,
                  choice.other_host.empty() ? "" : " and " + choice.other_host, choice.reason,
                  all.empty() ? "nothing" : describe(all)));
  return choice;
}

// ---- of a store's server -----------------------------------------------------------------------

namespace {

bool is_ours(SocketAddress address) {
  address.set_port(0);
  int fd = address.is_any() ? -1 : listen_when_tested(address);
  close_connection(fd);
  return fd >= 0;
}

// The addresses that this rank offers to its peers, and loopback for its own host and for tunnels.
std::vector<SocketAddress> usual_addresses(const std::string& host, int port,
                                           const Options& options, const std::string& why) {
  std::vector<std::string> hosts = {"127.0.0.1", "::1"};
  try {
    AddressChoice choice = choose_local_address(options, "", true);
    hosts.insert(hosts.end(), {choice.host, choice.other_host});
  } catch (const Error& error) {
    log(LogLevel::warn, "store", fmt::format("only this host reaches the store: {}", error.cause));
  }
  std::vector<SocketAddress> all;
  for (const std::string& one : hosts) {
    if (one.empty() || !is_ours(resolve(one, port).front())) continue;
    all.push_back(resolve(one, port).front());
  }
  std::string names;
  for (const SocketAddress& one : all) names += (names.empty() ? "" : ", ") + one.numeric().host;
  log(LogLevel::info, "store",
      fmt::format("{} {}; serving on {}; RINGWOOD_SOCKET_IFNAME chooses the interface, "
                  "RINGWOOD_LISTEN_ANY=1 takes all",
                  host, why, names));
  return all;
}

}  // namespace

std::vector<SocketAddress> addresses_to_serve(const std::string& host, int port,
                                              const Options& options) {
  if (options.listen_any) {
    bool v6 = is_ours(resolve("::1", 0).front());
    return {SocketAddress::any(v6 ? AF_INET6 : AF_INET, port)};
  }
  std::vector<SocketAddress> ours;
  bool only_loopback = true;
  for (const SocketAddress& address : resolve(host, port)) {
    if (!is_ours(address)) continue;
    ours.push_back(address);
    only_loopback = only_loopback && address.is_loopback();
  }
  bool name_of_loopback = host.find("localhost") != host.npos || is_numeric(host);
  if (ours.empty()) return usual_addresses(host, port, options, "is not an address of this host");
  if (!only_loopback || name_of_loopback) return ours;
  auto all = usual_addresses(host, port, options, "means loopback here");
  for (const SocketAddress& one : ours)
    if (one.numeric().host != "127.0.0.1" && one.numeric().host != "::1") all.push_back(one);
  return all;
}

}  // namespace ringwood

#include "tools/doctor/probe_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"
#include "transports/base/clock.h"

namespace ringwood::tools::doctor {
namespace {

using std::chrono::milliseconds;

constexpr int kTries = 3;
constexpr int kBuffer = 4 << 20;  // of full packets that have come and are not read yet
constexpr size_t kAtOnce = 8;     // targets that are asked before others are answered
constexpr int kHeaders = 20 + 8;  // IP, UDP
constexpr size_t kMaxAddresses = 64;

enum class Kind : uint32_t { small = 1, full, small_answer, full_answer };

struct Packet {
  uint64_t key = 0;
  Kind kind = Kind::small;
  uint32_t target = 0;  // of the asker's list
};

// The packet that fits both ends.
size_t full_bytes(const ProbeAddress& mine, const ProbeAddress& theirs) {
  const int mtu = std::min(mine.mtu, theirs.mtu);
  return static_cast<size_t>(std::clamp(mtu - kHeaders, int{sizeof(Packet)}, 65000));
}

sockaddr_in place_of(const ProbeAddress& address) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(address.address);
  place.sin_port = htons(address.port);
  return place;
}

}  // namespace

std::string to_text(const std::vector<ProbeAddress>& addresses) {
  std::string text;
  for (const ProbeAddress& one : addresses)
    text += fmt::format("{} {} {} {}\n", one.address, one.port, one.mtu, one.rail);
  return text;
}

std::vector<ProbeAddress> parse_probe_addresses(const std::string& text) {
  std::vector<ProbeAddress> all;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() != 4 || all.size() == kMaxAddresses) continue;
    const auto address = leading_number(words[0]), port = leading_number(words[1]),
               mtu = leading_number(words[2]), rail = leading_number(words[3]);
    if (!address || !port || !mtu || !rail || *address < 0 || *address > UINT32_MAX || *port < 0 ||
        *port > UINT16_MAX || *mtu < 0 || *mtu > UINT16_MAX || *rail < 0 || *rail > UINT16_MAX)
      continue;
    all.push_back({static_cast<uint32_t>(*address), static_cast<uint16_t>(*port),
                   static_cast<int>(*mtu), static_cast<int>(*rail)});
  }
  return all;
}

AddressProbe::AddressProbe(const Snapshot& host) {
  const auto mtu_of = [&](const std::string& name) {
    const NetInterface* interface = find_interface(host, name);
    return interface == nullptr ? 1500 : interface->mtu.value_or(1500);
  };
  for (size_t rail = 0; rail < std::min(host.ports.size(), kMaxAddresses); ++rail) {
    const RdmaPort& port = host.ports[rail];
    std::string why;
    if (!is_active(port) || !is_roce(port)) continue;
    const auto gid = chosen_gid(host, port, why);
    const auto address = gid ? ipv4_of(*gid) : std::nullopt;
    if (address) open(*address, mtu_of(port.interface), static_cast<int>(rail), port.interface);
  }
  if (!host.ports.empty()) return;
  const std::string& chosen = host.system.chosen_address;
  const auto address = parse_ipv4(chosen.substr(0, chosen.find(' ')));
  if (!address) return;
  for (const NetInterface& interface : host.interfaces)
    for (const std::string& text : interface.addresses)
      if (const auto own = parse_ipv4(text); own && own->address == address->address)
        open(own->address, mtu_of(interface.name), 0, "");
}

// Of two rails in one network, packets of either would leave by the first route: a rail's own
// socket sends by its interface alone.
void AddressProbe::open(uint32_t address, int mtu, int rail, const std::string& interface) {
  OwnedFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ProbeAddress one{address, 0, std::min(mtu, 65535), rail};
  sockaddr_in place = place_of(one);
  socklen_t size = sizeof place;
  // Such packets are not cut, and what the kernel believes about the way does not stop them.
  const int probe = IP_PMTUDISC_PROBE;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&place), size) != 0 ||
      ::setsockopt(socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place), &size) != 0)
    return;
  // As far as the kernel lets us: less only loses packets, which are asked for again; and before
  // Linux 5.7 binding needs CAP_NET_RAW.
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kBuffer, sizeof kBuffer);
  if (!interface.empty())
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                       static_cast<socklen_t>(interface.size()));
  one.port = ntohs(place.sin_port);
  addresses_.push_back(one);
  sockets_.push_back(std::move(socket));
}

void AddressProbe::ask(uint64_t key, std::vector<ProbeTarget>& targets) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i % kAtOnce == kAtOnce - 1) answer_all(key, targets, 0);
    for (size_t s = 0; s < sockets_.size(); ++s) {
      const ProbeTarget& target = targets[i];
      if (addresses_[s].rail != target.address.rail) continue;
      const sockaddr_in place = place_of(target.address);
      const auto send = [&](Kind kind, size_t bytes) {
        std::vector<char> memory(bytes);
        const Packet packet{key, kind, static_cast<uint32_t>(i)};
        std::memcpy(memory.data(), &packet, sizeof packet);
        // Lost ones are asked for again; what cannot be sent is not answered.
        (void)::sendto(sockets_[s].get(), memory.data(), memory.size(), 0,
                       reinterpret_cast<const sockaddr*>(&place), sizeof place);
      };
      if (!target.small_answered) send(Kind::small, sizeof(Packet));
      if (!target.full_answered) send(Kind::full, full_bytes(addresses_[s], target.address));
    }
  }
}

void AddressProbe::answer(size_t socket, uint64_t key, std::vector<ProbeTarget>& targets) {
  std::vector<char> memory(65536);
  sockaddr_in from{};
  for (int most = 0; most < 256; ++most) {
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(sockets_[socket].get(), memory.data(), memory.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    Packet packet;
    if (got < 0) return;
    if (got < static_cast<ssize_t>(sizeof packet)) continue;
    std::memcpy(&packet, memory.data(), sizeof packet);
    if (packet.key != key) continue;
    if (packet.kind == Kind::small || packet.kind == Kind::full) {
      packet.kind = packet.kind == Kind::small ? Kind::small_answer : Kind::full_answer;
      (void)::sendto(sockets_[socket].get(), &packet, sizeof packet, 0,
                     reinterpret_cast<const sockaddr*>(&from), size);
    } else if (packet.target < targets.size()) {
      ProbeTarget& target = targets[packet.target];
      (packet.kind == Kind::small_answer ? target.small_answered : target.full_answered) = true;
    }
  }
}

void AddressProbe::answer_all(uint64_t key, std::vector<ProbeTarget>& targets, int wait_ms) {
  std::vector<pollfd> waits;
  for (const OwnedFd& socket : sockets_) waits.push_back({socket.get(), POLLIN, 0});
  if (::poll(waits.data(), waits.size(), wait_ms) <= 0) return;
  for (size_t s = 0; s < waits.size(); ++s)
    if (waits[s].revents != 0) answer(s, key, targets);
}

void AddressProbe::exchange(uint64_t key, std::vector<ProbeTarget>& targets, milliseconds time) {
  // What were asked for at the end could not be answered in time.
  const milliseconds between = time / (kTries + 1);
  const Deadline end = Deadline::after(time);
  Deadline again = Deadline::after(Duration::zero());
  for (int tries = 0; !end.passed();) {
    if (tries < kTries && again.passed()) {
      ask(key, targets);
      again = Deadline::after(between);
      ++tries;
    }
    answer_all(key, targets, tries < kTries ? again.left_ms() : end.left_ms());
  }
}

}  // namespace ringwood::tools::doctor

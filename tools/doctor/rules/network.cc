// Interfaces of one host: addresses that get in each other's way, bonds, packet filters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/counted.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

// The interfaces whose addresses lie in one IPv4 network, of those that carry data.
std::map<std::string, std::vector<const NetInterface*>> by_network(const Snapshot& snapshot) {
  std::map<std::string, std::vector<const NetInterface*>> networks;
  for (const NetInterface& interface : snapshot.interfaces) {
    if (is_container_interface(interface.name) || interface.up == false) continue;
    for (const std::string& text : interface.addresses) {
      const auto address = parse_ipv4(text);
      if (!address || address->address >> 24 == 127 || address->mask == ~uint32_t{0}) continue;
      auto& members = networks[print_ipv4(address->network())];
      if (members.empty() || members.back() != &interface) members.push_back(&interface);
    }
  }
  std::erase_if(networks, [](const auto& entry) { return entry.second.size() < 2; });
  return networks;
}

// RDMA packets that go astray are dropped; of others the kernel takes care.
Severity severity_of(const Snapshot& snapshot, const std::vector<const NetInterface*>& members,
                     Severity of_rails) {
  const bool any = std::any_of(members.begin(), members.end(), [&](const NetInterface* one) {
    return is_rail(snapshot, one->name);
  });
  return any ? of_rails : Severity::note;
}

std::string names_of(const std::vector<const NetInterface*>& members) {
  std::string text;
  for (const NetInterface* one : members) text += (text.empty() ? "" : ", ") + one->name;
  return text;
}

void look_arp(const Snapshot& snapshot, Sink& sink) {
  for (const auto& [network, members] : by_network(snapshot)) {
    const auto lax = std::find_if(members.begin(), members.end(), [](const NetInterface* one) {
      const auto ignore = one->settings.find("arp_ignore");
      const auto filter = one->settings.find("arp_filter");
      return ignore != one->settings.end() && ignore->second == 0 &&
             (filter == one->settings.end() || filter->second == 0);
    });
    if (lax == members.end()) continue;
    sink.add(severity_of(snapshot, members, Severity::error), snapshot.host,
             fmt::format("{} are in one network ({}), and arp_ignore of {} is 0", names_of(members),
                         network, (*lax)->name),
             {"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"});
  }
}

void look_filter(const Snapshot& snapshot, Sink& sink) {
  for (const auto& [network, members] : by_network(snapshot)) {
    std::vector<std::string> strict, commands;
    for (const NetInterface* one : members) {
      const auto filter = one->settings.find("rp_filter");
      if (filter == one->settings.end() || filter->second != 1) continue;
      strict.push_back(one->name);
      commands.push_back(fmt::format("sysctl -w net.ipv4.conf.{}.rp_filter=2", one->name));
    }
    if (!strict.empty())
      sink.add(severity_of(snapshot, members, Severity::warning), snapshot.host,
               fmt::format("{} are in one network ({}), and rp_filter of {} is 1 (strict)",
                           names_of(members), network, fmt::join(strict, ", ")),
               commands);
  }
}

void look_bond(const Snapshot& snapshot, Sink& sink) {
  for (const RdmaPort* port : rails(snapshot)) {
    const NetInterface* interface = find_interface(snapshot, port->interface);
    if (interface == nullptr || !interface->bond || interface->bond->members.size() < 2) continue;
    if (interface->bond->mode == "active-backup") continue;
    const auto pairs = knob_number(snapshot, "RINGWOOD_VERBS_QPS").value_or(1);
    const auto members = static_cast<int64_t>(interface->bond->members.size());
    const bool by_address = interface->bond->hash == "layer2";
    if (pairs >= members && !by_address) continue;
    std::vector<std::string> commands;
    if (pairs < members)
      commands.push_back(fmt::format("export RINGWOOD_VERBS_QPS={}", 2 * members));
    if (by_address)
      commands.push_back(fmt::format("echo layer3+4 >/sys/class/net/{}/bonding/xmit_hash_policy",
                                     interface->name));
    // Cards that join ports by themselves spread queue pairs whatever the policy is.
    sink.add(
        pairs < members ? Severity::warning : Severity::note, snapshot.host,
        fmt::format("{} is {} ({}) of {} members, with {} for each peer{}", name_of(*port),
                    interface->name, interface->bond->mode, members, counted(pairs, "queue pair"),
                    by_address ? " and a hash of MAC addresses (layer2), which are the same "
                                 "for all of them"
                               : ""),
        commands);
  }
}

void look_firewall(const Snapshot& snapshot, Sink& sink) {
  if (!snapshot.system.firewall.empty())
    sink.add(snapshot.host,
             fmt::format("the packet filter has: {}", fmt::join(snapshot.system.firewall, "; ")),
             {"nft insert rule inet filter input udp dport 4791 accept",
              "iptables -I INPUT -p udp --dport 4791 -j ACCEPT"});
}

void look_address(const Snapshot& snapshot, Sink& sink) {
  if (!snapshot.system.refused_address.empty()) {
    sink.add(snapshot.host, snapshot.system.refused_address);
    return;
  }
  bool any = false, virtual_only = true;
  std::string names;
  for (const NetInterface& interface : snapshot.interfaces) {
    if (interface.name == "lo" || interface.addresses.empty() || interface.up == false) continue;
    any = true;
    virtual_only = virtual_only && is_container_interface(interface.name);
    names += (names.empty() ? "" : ", ") + interface.name;
  }
  if (any && virtual_only)
    sink.add(snapshot.host, fmt::format("only {} have addresses", names),
             {"# export RINGWOOD_SOCKET_IFNAME==NAME, the interface that other hosts reach"});
}

void look_neighbours(const Snapshot& snapshot, Sink& sink) {
  const SystemState& system = snapshot.system;
  const bool near = system.neighbours && system.neighbours_max && *system.neighbours_max > 0 &&
                    *system.neighbours >= *system.neighbours_max / 10 * 9;
  const int64_t refused = rise(snapshot, kNeighbours, kTableFull);
  if (!near && refused == 0) return;
  std::string evidence =
      fmt::format("the table of neighbours has {} rows", system.neighbours.value_or(0));
  if (system.neighbours_max) evidence += fmt::format(" of at most {}", *system.neighbours_max);
  if (refused > 0)
    evidence += fmt::format("; {} times in {:g} s there was no room", refused,
                            std::round(snapshot.seconds.value_or(0)));
  sink.add(snapshot.host, evidence,
           {"sysctl -w net.ipv4.neigh.default.gc_thresh2=8192",
            "sysctl -w net.ipv4.neigh.default.gc_thresh3=16384"});
}

constexpr Rule kRules[] = {
    {.id = "arp-flux",
     .severity = Severity::error,
     .title = "several interfaces in one network, and each answers for the others' addresses",
     .why = "With arp_ignore 0 an interface answers ARP for every address of its host. Packets for "
            "one rail then arrive at another, where an RDMA device drops them: timeouts across "
            "rails that come and go. A note where no rail is among them.",
     .fix = "a network for each rail, or arp_ignore 1 and arp_announce 2",
     .needs = {"addresses"},
     .look = look_arp},
    {.id = "rp-filter",
     .severity = Severity::warning,
     .title =
         "several interfaces in one network, and packets that come in by the other are dropped",
     .why = "rp_filter 1 drops a packet that did not come in by the interface through which its "
            "sender would be answered; with two in a network that is half of them. A note where no "
            "rail is among them.",
     .fix = "rp_filter 2 on the rails, or a network for each",
     .needs = {"addresses"},
     .look = look_filter},
    {.id = "bond-queue-pairs",
     .severity = Severity::warning,
     .title = "a bond with fewer queue pairs than members, or a hash that sees one flow",
     .why = "A bond sends all packets of one queue pair through one member, so one queue pair "
            "reaches half of the rate of a bond of two. With hash policy layer2 so do all of them "
            "together, unless the card spreads them itself: a note.",
     .fix = "at least two queue pairs for each member, and hash policy layer3+4",
     .where = Where::rdma,
     .look = look_bond},
    {.id = "udp-4791-filtered",
     .severity = Severity::warning,
     .title = "a packet filter may drop RoCE packets (UDP, port 4791)",
     .why = "RoCE v2 travels as UDP to port 4791. Cards mostly bypass the host's filter, Soft-RoCE "
            "does not, and the same rule is often in switches: TCP works, verbs time out.",
     .fix = "accept UDP port 4791",
     .where = Where::rdma,
     .needs = {"firewall"},
     .look = look_firewall},
    {.id = "neighbour-table",
     .severity = Severity::warning,
     .title = "the kernel has no room for the addresses of more neighbours",
     .why = "It keeps the hardware address of each host of its own networks, 1024 of them unless "
            "told otherwise, for all containers together. Beyond that connections fail now and "
            "then, or hang, with \"No buffer space available\" or a timeout, and RoCE's as well, "
            "which asks the same table.",
     .fix = "net.ipv4.neigh.default.gc_thresh3 of twice the hosts in the network, at least",
     .needs = {"neighbours"},
     .look = look_neighbours},
    {.id = "interface-choice",
     .severity = Severity::error,
     .title = "no interface whose address other hosts could reach",
     .why = "Ranks meet over TCP. Bridges of containers and loopback are not reachable from other "
            "hosts.",
     .fix = "give an interface an address, or name it in RINGWOOD_SOCKET_IFNAME",
     .needs = {"interfaces", "addresses"},
     .covers = {"interface-absent"},
     .look = look_address},
};

}  // namespace

std::span<const Rule> network_rules() { return kRules; }

}  // namespace ringwood::tools::doctor

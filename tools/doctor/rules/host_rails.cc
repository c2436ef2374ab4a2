// Comparisons of hosts, rail by rail: MTU, rate, addresses, firmware, bridging.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tools/doctor/collect/tree.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

using RailValue = std::function<std::string(const Snapshot&, const RdmaPort&)>;

// A finding for each rail on which hosts differ. Of all RoCE hosts; others take no part.
void compare(const Snapshots& all, const char* what, Sink& sink, const RailValue& value) {
  size_t rail = 0;
  for (const auto& ports : paired_ports(all)) {
    std::vector<std::pair<std::string, std::string>> values;
    std::string name;
    for (const auto& [host, port] : ports) {
      if (!is_active(*port) || !is_selected(*host, *port)) continue;
      if (name.empty()) name = name_of(*port);
      values.emplace_back(host->host, value(*host, *port));
    }
    if (const auto odd = odd_ones(values))
      sink.add(hosts_of(*odd),
               fmt::format("{} of rail {} ({}): {}", what, rail, name, print_odd(*odd)));
    ++rail;
  }
}

void compare_rails(const Snapshots& all, Sink& sink) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Snapshot& one : all)
    values.emplace_back(one.host, fmt::format("{} of {}", rails(one).size(), one.ports.size()));
  if (const auto odd = odd_ones(values))
    sink.add(hosts_of(*odd), fmt::format("active RDMA ports: {}", print_odd(*odd)));
}

void compare_mtu(const Snapshots& all, Sink& sink) {
  compare(all, "path MTU", sink, [](const Snapshot&, const RdmaPort& port) {
    return port.path_mtu ? std::to_string(*port.path_mtu) : "";
  });
}

void compare_interface_mtu(const Snapshots& all, Sink& sink) {
  // Where there is no RDMA: the interfaces that most hosts have, by name.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> by_name;
  for (const Snapshot& one : all)
    for (const NetInterface& interface : one.interfaces) {
      const bool used = std::any_of(interface.addresses.begin(), interface.addresses.end(),
                                    [](const std::string& a) { return !begins_with(a, "fe80"); });
      if (!one.ports.empty() || interface.name == "lo" || !used) continue;
      if (!is_container_interface(interface.name) && interface.mtu)
        by_name[interface.name].emplace_back(one.host, std::to_string(*interface.mtu));
    }
  for (const auto& [name, values] : by_name)
    if (const auto odd = odd_ones(values))
      sink.add(hosts_of(*odd), fmt::format("MTU of {}: {}", name, print_odd(*odd)),
               {fmt::format("ip link set {} mtu {}", name, odd->usual)});
}

void compare_rate(const Snapshots& all, Sink& sink) {
  compare(all, "rate", sink, [](const Snapshot&, const RdmaPort& port) -> std::string {
    if (!port.rate_gbits || is_software(port)) return "";
    return fmt::format("{:g} Gbit/s", *port.rate_gbits);
  });
}

void compare_gids(const Snapshots& all, Sink& sink) {
  compare(all, "GID", sink, [](const Snapshot& one, const RdmaPort& port) -> std::string {
    std::string why;
    const auto gid = best_gid(one, port, why);
    if (!is_roce(port) || !gid || verbs::is_link_local(gid->bytes)) return "";
    return fmt::format("{} {}", verbs::is_ipv4(gid->bytes) ? "IPv4" : "IPv6",
                       gid->type == verbs::GidType::roce_v2 ? "RoCE v2" : "RoCE v1");
  });
}

// A fixed index must mean the same kind of row everywhere.
void compare_indices(const Snapshots& all, Sink& sink) {
  if (std::none_of(all.begin(), all.end(), [](const Snapshot& one) {
        return knob_number(one, "RINGWOOD_VERBS_GID_INDEX").value_or(-1) >= 0;
      }))
    return;
  compare(all, "index of the best GID", sink, [](const Snapshot& one, const RdmaPort& port) {
    std::string why;
    const auto gid = best_gid(one, port, why);
    return is_roce(port) && gid ? std::to_string(gid->index) : "";
  });
}

void compare_firmware(const Snapshots& all, Sink& sink) {
  compare(all, "firmware", sink, [](const Snapshot&, const RdmaPort& port) {
    return is_software(port) ? "" : port.firmware;
  });
  compare(all, "card", sink, [](const Snapshot&, const RdmaPort& port) {
    return is_software(port) ? "" : port.board;
  });
  compare(all, "driver", sink, [](const Snapshot& one, const RdmaPort& port) {
    const NetInterface* interface = find_interface(one, port.interface);
    return interface == nullptr || interface->driver.empty() ? port.driver : interface->driver;
  });
}

std::string print_dcb(const Dcb& dcb) {
  std::vector<int> on;
  for (size_t p = 0; p < dcb.pfc.size(); ++p)
    if (dcb.pfc[p] != 0) on.push_back(static_cast<int>(p));
  return fmt::format("trust {}, PFC on {}", dcb.trust.empty() ? "unknown" : dcb.trust,
                     on.empty() ? "none" : fmt::format("{}", fmt::join(on, ",")));
}

void compare_dcb(const Snapshots& all, Sink& sink) {
  const auto interface_of = [](const Snapshot& one, const RdmaPort& port) {
    const auto all = carriers(one, port);
    return all.empty() ? nullptr : all.front();
  };
  compare(all, "bridging", sink, [&](const Snapshot& one, const RdmaPort& port) {
    const NetInterface* interface = interface_of(one, port);
    return interface != nullptr && interface->dcb ? print_dcb(*interface->dcb) : "";
  });
}

void compare_links(const Snapshots& all, Sink& sink) {
  const auto interface_of = [](const Snapshot& one, const RdmaPort& port) {
    const auto all = carriers(one, port);
    return all.empty() ? nullptr : all.front();
  };
  compare(all, "global pause", sink, [&](const Snapshot& one, const RdmaPort& port) -> std::string {
    const NetInterface* interface = interface_of(one, port);
    if (interface == nullptr || !interface->pause) return "";
    return fmt::format("rx {} tx {}", interface->pause->receive ? "on" : "off",
                       interface->pause->send ? "on" : "off");
  });
  compare(all, "FEC", sink, [&](const Snapshot& one, const RdmaPort& port) {
    const NetInterface* interface = interface_of(one, port);
    return interface == nullptr ? "" : interface->fec;
  });
}

void compare_marking(const Snapshots& all, Sink& sink) {
  compare(all, "what is sent", sink, [](const Snapshot& one, const RdmaPort& port) {
    const Marking marking = marking_of(one, port);
    return marking.priority
               ? fmt::format("DSCP {} with priority {}", marking.dscp, *marking.priority)
               : fmt::format("DSCP {}", marking.dscp);
  });
}

// The interface through which a host would send to an address; "": by none.
std::string way_to(const Snapshot& from, uint32_t address, const std::string& wanted) {
  std::string best;
  uint32_t longest = 0;
  bool any = false;
  for (const Route& route : from.system.routes) {
    if ((address & route.mask) != route.destination) continue;
    const bool better = !any || route.mask > longest;
    if (better || (route.mask == longest && route.interface == wanted)) best = route.interface;
    longest = std::max(longest, route.mask);
    any = true;
  }
  return best;
}

// The IPv4 address of a rail that could be reached from others.
std::optional<uint32_t> address_of(const Snapshot& one, const RdmaPort& port) {
  std::string why;
  if (!is_active(port) || !is_roce(port) || !is_selected(one, port)) return std::nullopt;
  const auto gid = chosen_gid(one, port, why);
  return gid && !verbs::is_link_local(gid->bytes) ? ipv4_of(*gid) : std::nullopt;
}

void compare_ways_from(const Snapshot& from, const RdmaPort& mine,
                       const std::vector<HostPort>& rail, Sink& sink) {
  std::string hosts, example;
  for (const auto& [other, port] : rail) {
    const Snapshot& to = *other;
    const auto address = &to == &from ? std::nullopt : address_of(to, *port);
    if (!address) continue;
    const std::string way = way_to(from, *address, mine.interface);
    if (way == mine.interface) continue;
    if (example.empty())
      example = fmt::format("{} ({}) would reach {} of {} {}", name_of(mine), mine.interface,
                            print_ipv4(*address), to.host,
                            way.empty() ? "by no route" : "through " + way);
    hosts += (hosts.empty() ? "" : ", ") + to.host;
  }
  if (!hosts.empty())
    sink.add(from.host, fmt::format("{}; so for {}", example, hosts),
             {fmt::format("ip route  # shows them; one is missing that leads through {}",
                          mine.interface)});
}

void compare_ways(const Snapshots& all, Sink& sink) {
  for (const auto& rail : paired_ports(all)) {
    for (const auto& [from, mine] : rail) {
      // Where other tables decide, the main one tells nothing; gaps.h lists it.
      const auto& rules = from->system.policy_rules;
      if (from->system.routes.empty() || (rules && !rules->empty())) continue;
      if (address_of(*from, *mine)) compare_ways_from(*from, *mine, rail, sink);
    }
  }
}

constexpr Rule kRules[] = {
    {.id = "hosts-rails",
     .severity = Severity::error,
     .title = "hosts have different numbers of active RDMA ports",
     .why = "A job has as many rails as the host with the fewest; a host without any takes "
            "everybody to TCP.",
     .fix = "bring the missing ports up",
     .needs = {"port-state"},
     .compare = compare_rails},
    {.id = "hosts-mtu",
     .severity = Severity::error,
     .title = "the path MTU differs between hosts",
     .why = "The smaller one is used between two hosts, if it is told; packets that are too large "
            "for a port in between vanish, and connections time out with error 12.",
     .fix = "one MTU on all hosts and switches",
     .where = Where::rdma,
     .needs = {"path-mtu"},
     .covers = {"mtu-small"},
     .compare = compare_mtu},
    {.id = "hosts-interface-mtu",
     .severity = Severity::warning,
     .title = "the MTU of an interface differs between hosts without RDMA",
     .why = "TCP adapts, at the price of the smaller one; where ICMP is filtered, large packets "
            "vanish and connections hang.",
     .fix = "one MTU on all hosts and switches",
     .compare = compare_interface_mtu},
    {.id = "hosts-rate",
     .severity = Severity::warning,
     .title = "a rail is slower on one host than on the others",
     .why = "All ranks wait for the slowest.",
     .fix = "cable, switch port, negotiation of that host",
     .where = Where::rdma,
     .needs = {"port-rate"},
     .covers = {"port-rate"},
     .compare = compare_rate},
    {.id = "hosts-gid",
     .severity = Severity::error,
     .title = "GIDs of a rail are of different families or RoCE versions",
     .why = "Two ports connect only with GIDs of one family and version.",
     .fix = "give all hosts addresses of the same family on that rail",
     .where = Where::rdma,
     .compare = compare_gids},
    {.id = "hosts-gid-index",
     .severity = Severity::error,
     .title = "a fixed GID index is set, and the best row has another index on another host",
     .why = "An index means another address, or none, on a host whose table is in another order.",
     .fix = "leave the index unset",
     .where = Where::rdma,
     .covers = {"env-gid-index", "gid-fixed-index"},
     .covers_all_hosts = true,
     .compare = compare_indices},
    {.id = "hosts-route",
     .severity = Severity::error,
     .title = "a rail does not lead to the same rail of another host",
     .why = "RDMA leaves by the port of the rail. Where the route leads elsewhere, or nowhere, "
            "connections fail with 'network unreachable' or time out (110). Only the main routing "
            "table is looked at.",
     .fix = "addresses of one network on each rail, or a route through the rail's interface",
     .where = Where::rdma,
     .needs = {"routes", "ipv4-routes", "policy-routing"},
     .compare = compare_ways},
    {.id = "hosts-firmware",
     .severity = Severity::warning,
     .title = "cards, firmware or drivers differ between hosts",
     .why = "Defaults and faults change with firmware; the odd host is the first suspect.",
     .fix = "one version everywhere",
     .where = Where::rdma,
     .compare = compare_firmware},
    {.id = "hosts-dcb",
     .severity = Severity::error,
     .title = "PFC or trust differ between hosts",
     .why = "Flow control works end to end or not at all.",
     .fix = "the settings of the other hosts",
     .where = Where::rdma,
     .needs = {"dcb", "trust"},
     .covers = {"dscp-not-trusted", "pfc-other-priority", "hosts-dscp"},
     .compare = compare_dcb},
    {.id = "hosts-link-settings",
     .severity = Severity::warning,
     .title = "global pause or FEC differ between hosts",
     .why = "One host was set up by hand: its links lose or pause where the others' do not.",
     .fix = "the settings of the other hosts",
     .where = Where::rdma,
     .needs = {"pause", "fec"},
     .covers = {"global-pause"},
     .compare = compare_links},
    {.id = "hosts-dscp",
     .severity = Severity::error,
     .title = "hosts mark what they send differently",
     .why = "One direction has the protected priority, the other has not: half of the traffic is "
            "lost under load, and counters of one side look well.",
     .fix = "one traffic class on all hosts",
     .where = Where::rdma,
     .needs = {"dcb", "trust", "environment"},
     .covers = {"pfc-other-priority"},
     .compare = compare_marking},
};

}  // namespace

std::span<const Rule> host_rail_rules() { return kRules; }

}  // namespace ringwood::tools::doctor

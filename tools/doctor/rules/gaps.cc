#include "tools/doctor/rules/gaps.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/rules/counter_names.h"
#include "tools/doctor/rules/facts.h"

namespace ringwood::tools::doctor {
namespace {

std::string driver_of(const std::string& driver) {
  return driver.empty() ? "its driver" : "the driver " + driver;
}

bool is_listed(const Snapshot& snapshot, const std::string& need, const std::string& where) {
  return std::any_of(snapshot.gaps.begin(), snapshot.gaps.end(),
                     [&](const Gap& gap) { return gap.need == need && gap.where == where; });
}

void look_port_counters(const RdmaPort& port, std::vector<Gap>& gaps) {
  const Counters& counters = port.counters;
  if (counters.empty()) return;  // is a gap of its own
  const auto miss = [&](const char* need, const char* what) {
    gaps.push_back(
        {need, name_of(port), fmt::format("{} counts no {}", driver_of(port.driver), what)});
  };
  if (!has_any(counters, kLossCounters)) miss("loss-counters", "packets that were sent again");
  if (!has_any(counters, kReceiverCounters))
    miss("receiver-counters", "messages that found no receive");
  if (!has_any(counters, kMarkedCounters)) miss("ecn-counters", "packets that ECN marked");
}

void look_interface_counters(const Snapshot& snapshot, const NetInterface& interface,
                             std::vector<Gap>& gaps) {
  if (interface.counters.empty() || is_listed(snapshot, "ethtool-statistics", interface.name))
    return;
  const auto miss = [&](const char* need, const char* what) {
    gaps.push_back(
        {need, interface.name, fmt::format("{} counts no {}", driver_of(interface.driver), what)});
  };
  if (std::none_of(interface.counters.begin(), interface.counters.end(),
                   [](const auto& one) { return counts_pauses(one.first).has_value(); }))
    miss("pause-counters", "time of pauses");
  if (!interface.counters.contains(bytes_counter(interface, 0)))
    miss("priority-counters", "bytes of each priority");
}

void look_place(const Snapshot& snapshot, const RdmaPort& port, std::vector<Gap>& gaps) {
  if (is_software(port)) return;
  const PciDevice* device = find_pci(snapshot, port.pci);
  const std::string where = port.pci.empty() ? name_of(port) : port.pci;
  if (device == nullptr || !device->speed || !device->width)
    gaps.push_back({"pci-link", where, "speed and width of its PCI link are not known"});
  if (snapshot.system.nodes.size() > 1 && (device == nullptr || !device->node))
    gaps.push_back({"numa-node", where, "the kernel does not know its memory node"});
  if (!port.rate_gbits) gaps.push_back({"port-rate", name_of(port), "its rate is not known"});
}

// Of a host without RDMA.
void look_card(const Snapshot& snapshot, const NetInterface& interface, std::vector<Gap>& gaps) {
  const PciDevice* device = find_pci(snapshot, interface.pci);
  if (!interface.pci.empty() && (device == nullptr || !device->speed || !device->width))
    gaps.push_back({"pci-link", interface.pci, "speed and width of its PCI link are not known"});
}

void look_network(const Snapshot& snapshot, const RdmaPort& port, std::vector<Gap>& gaps) {
  const NetInterface* interface = find_interface(snapshot, port.interface);
  if (interface != nullptr && !interface->carrier_changes)
    gaps.push_back({"carrier-changes", interface->name, "the kernel does not count them"});
  if (is_roce(port) && !port.path_mtu)
    gaps.push_back({"path-mtu", name_of(port), "neither the library nor an interface tells it"});
  std::string why;
  const auto gid = is_roce(port) ? chosen_gid(snapshot, port, why) : std::nullopt;
  if (gid && !ipv4_of(*gid) && !verbs::is_link_local(gid->bytes))
    gaps.push_back({"ipv4-routes", name_of(port),
                    "its GID is an IPv6 address, and only routes of IPv4 are read"});
}

}  // namespace

std::vector<Gap> derived_gaps(const Snapshot& snapshot) {
  std::vector<Gap> gaps;
  for (const RdmaPort* port : rails(snapshot)) {
    look_port_counters(*port, gaps);
    for (const NetInterface* interface : carriers(snapshot, *port))
      look_interface_counters(snapshot, *interface, gaps);
    look_place(snapshot, *port, gaps);
    look_network(snapshot, *port, gaps);
  }
  if (snapshot.ports.empty())
    for (const NetInterface& interface : snapshot.interfaces) look_card(snapshot, interface, gaps);
  const SystemState& system = snapshot.system;
  if (system.verbs_library.empty())
    gaps.push_back({"verbs-library", "", "only a process of that host can load it"});
  if (!system.policy_rules)
    gaps.push_back({"policy-routing", "", "the rules of ip rule are not known"});
  else if (!system.policy_rules->empty())
    gaps.push_back({"policy-routing", "",
                    fmt::format("{} of ip rule are in force ({}), and only the main routing table "
                                "is looked at; --probe tells",
                                system.policy_rules->size() == 1
                                    ? "a rule"
                                    : fmt::format("{} rules", system.policy_rules->size()),
                                system.policy_rules->front())});
  return gaps;
}

}  // namespace ringwood::tools::doctor

#include "tools/doctor/rules/facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "tools/doctor/collect/tree.h"
#include "transports/base/knobs/knobs.h"
#include "transports/verbs/rail/addresses.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxNamed = 8;  // hosts in a sentence

verbs::GidType type_of(const std::string& text) {
  if (text == "RoCE v2") return verbs::GidType::roce_v2;
  // The kernel calls both by one name; on Ethernet it is version 1.
  return text == "IB/RoCE v1" ? verbs::GidType::roce_v1 : verbs::GidType::infiniband;
}

std::string environment_of(const Snapshot& snapshot, const std::string& name) {
  const auto found = snapshot.process.environment.find(name);
  return found == snapshot.process.environment.end() ? "" : found->second;
}

}  // namespace

bool is_active(const RdmaPort& port) { return port.state == "ACTIVE"; }
bool is_roce(const RdmaPort& port) { return port.link_layer == "Ethernet"; }
bool is_software(const RdmaPort& port) {
  return port.driver == "rdma_rxe" || port.driver == "siw" || begins_with(port.device, "rxe");
}

bool has_verbs(const Snapshot& snapshot) {
  std::string why;
  const auto active = rails(snapshot);
  return std::any_of(active.begin(), active.end(), [&](const RdmaPort* port) {
    return !is_roce(*port) || chosen_gid(snapshot, *port, why);
  });
}

std::string verbs_off(const Snapshot& snapshot) {
  const auto off = knob_in(snapshot, "RINGWOOD_VERBS_DISABLE");
  if (off && off->value == "1") return off->name + "=1";
  const auto transports = knob_in(snapshot, "RINGWOOD_TRANSPORTS");
  if (transports && transports->value.find("verbs") == std::string::npos)
    return transports->name + "=" + transports->value;
  return {};
}

bool is_nearly_full(std::optional<int64_t> used, std::optional<int64_t> limit) {
  constexpr double kNearly = 0.9;
  return used && limit && *limit > 0 &&
         static_cast<double>(*used) > kNearly * static_cast<double>(*limit);
}

std::vector<const PciDevice*> gpus(const Snapshot& snapshot) {
  constexpr std::array kVendors = {"0x10de", "0x1002", "0x8086"};
  std::vector<const PciDevice*> found;
  for (const PciDevice& device : snapshot.pci) {
    // 3D controllers and accelerators; a display adapter of a board is none.
    const bool kind = begins_with(device.kind, "0x0302") || begins_with(device.kind, "0x12");
    if (kind && std::find(kVendors.begin(), kVendors.end(), device.vendor) != kVendors.end())
      found.push_back(&device);
  }
  return found;
}

bool is_nvidia(const PciDevice* device) { return device->vendor == "0x10de"; }

std::optional<EnvironmentSetting> knob_in(const Snapshot& snapshot, const std::string& knob) {
  if (const auto value = environment_of(snapshot, knob); !value.empty())
    return EnvironmentSetting{knob, value};
  for (const Knob& row : knobs()) {
    if (knob != row.name) continue;
    for (const char* alias : row.aliases)
      if (alias != nullptr)
        if (const auto value = environment_of(snapshot, alias); !value.empty())
          return EnvironmentSetting{alias, value};
  }
  return std::nullopt;
}

std::optional<int64_t> knob_number(const Snapshot& snapshot, const std::string& knob) {
  const auto setting = knob_in(snapshot, knob);
  return setting ? leading_number(setting->value) : std::nullopt;
}

std::vector<verbs::Gid> gid_table(const Snapshot& snapshot, const RdmaPort& port) {
  std::vector<verbs::Gid> table;
  for (const GidRow& row : port.gids) {
    verbs::Gid gid;
    if (::inet_pton(AF_INET6, row.address.c_str(), gid.bytes.data()) != 1) continue;
    gid.index = row.index;
    gid.type = type_of(row.type);
    gid.interface = row.interface;
    // A slot without a type belongs to another network namespace.
    if (row.type.empty()) gid.type = verbs::GidType::roce_v2;
    const NetInterface* interface = find_interface(snapshot, row.interface);
    gid.up =
        interface != nullptr && interface->up.value_or(true) && interface->carrier.value_or(true);
    gid.vlan = row.interface.find('.') != row.interface.npos;
    table.push_back(gid);
  }
  return table;
}

namespace {

std::optional<verbs::Gid> choose_gid(const Snapshot& snapshot, const RdmaPort& port, int64_t fixed,
                                     std::string& why) {
  verbs::GidWish wish;
  if (fixed >= 0 && fixed <= INT32_MAX) wish.index = static_cast<int>(fixed);
  if (const auto version = knob_number(snapshot, "RINGWOOD_VERBS_ROCE_VERSION"))
    wish.version = *version == 1 ? 1 : 2;
  if (const auto family = knob_in(snapshot, "RINGWOOD_VERBS_ADDRESS_FAMILY"))
    wish.family = family->value;
  if (const auto range = knob_in(snapshot, "RINGWOOD_VERBS_ADDRESS_RANGE"))
    wish.range = range->value;
  const auto table = gid_table(snapshot, port);
  const auto index = verbs::choose(table, wish, why);
  return index ? std::optional<verbs::Gid>(table[*index]) : std::nullopt;
}

}  // namespace

std::optional<verbs::Gid> chosen_gid(const Snapshot& snapshot, const RdmaPort& port,
                                     std::string& why) {
  const int64_t fixed = knob_number(snapshot, "RINGWOOD_VERBS_GID_INDEX").value_or(-1);
  return choose_gid(snapshot, port, fixed, why);
}

std::optional<verbs::Gid> best_gid(const Snapshot& snapshot, const RdmaPort& port,
                                   std::string& why) {
  return choose_gid(snapshot, port, -1, why);
}

std::string print_choice(const Snapshot& snapshot, const verbs::Gid& gid) {
  const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_GID_INDEX");
  if (knob_number(snapshot, "RINGWOOD_VERBS_GID_INDEX").value_or(-1) >= 0)
    return fmt::format("{}={}", setting->name, setting->value);
  const char* family = verbs::is_ipv4(gid.bytes)         ? "IPv4"
                       : verbs::is_link_local(gid.bytes) ? "link-local"
                                                         : "IPv6";
  return fmt::format("{}, {}", gid.type == verbs::GidType::roce_v2 ? "RoCE v2" : "RoCE v1", family);
}

std::optional<uint32_t> ipv4_of(const verbs::Gid& gid) {
  if (!verbs::is_ipv4(gid.bytes)) return std::nullopt;
  uint32_t address = 0;
  std::memcpy(&address, gid.bytes.data() + 12, sizeof address);
  return ntohl(address);
}

Marking marking_of(const Snapshot& snapshot, const RdmaPort& port) {
  Marking marking;
  marking.origin = "the default";
  if (const auto setting = knob_in(snapshot, "RINGWOOD_VERBS_TRAFFIC_CLASS")) {
    marking.traffic_class = static_cast<int>(leading_number(setting->value).value_or(0) & 0xff);
    marking.origin = setting->name + "=" + setting->value;
  }
  if (port.traffic_class) {
    marking.traffic_class = *port.traffic_class & 0xff;
    marking.origin = fmt::format("tc/{}/traffic_class of {}", port.number, port.device);
  }
  marking.dscp = marking.traffic_class >> 2;
  // Members of a bond that differ are a finding of their own.
  const auto all = carriers(snapshot, port);
  const auto known = std::find_if(all.begin(), all.end(), [](const NetInterface* one) {
    return one->dcb && !one->dcb->trust.empty();
  });
  if (known == all.end()) return marking;
  const Dcb& dcb = *(*known)->dcb;
  if (dcb.trust != "dscp") {
    // Packets without a VLAN tag have no PCP.
    if (port.interface.find('.') == port.interface.npos) marking.priority = 0;
    return marking;
  }
  const auto row = dcb.dscp_to_priority.find(marking.dscp);
  marking.priority = row != dcb.dscp_to_priority.end() ? row->second : marking.dscp >> 3;
  return marking;
}

std::vector<const NetInterface*> carriers(const Snapshot& snapshot, const RdmaPort& port) {
  const NetInterface* own = find_interface(snapshot, port.interface);
  std::vector<const NetInterface*> found;
  if (own != nullptr && own->bond)
    for (const std::string& name : own->bond->members)
      if (const NetInterface* member = find_interface(snapshot, name)) found.push_back(member);
  if (own != nullptr && found.empty()) found.push_back(own);
  return found;
}

bool is_selected(const Snapshot& snapshot, const RdmaPort& port) {
  const auto wish = knob_in(snapshot, "RINGWOOD_VERBS_DEVICES");
  return !wish || verbs::selected(wish->value, port.device, port.number);
}

std::vector<const RdmaPort*> rails(const Snapshot& snapshot) {
  std::vector<const RdmaPort*> found;
  for (const RdmaPort& port : snapshot.ports)
    if (is_active(port) && is_selected(snapshot, port)) found.push_back(&port);
  return found;
}

bool is_rail(const Snapshot& snapshot, const std::string& interface) {
  const auto all = rails(snapshot);
  return std::any_of(all.begin(), all.end(),
                     [&](const RdmaPort* port) { return port->interface == interface; });
}

std::vector<std::vector<HostPort>> paired_ports(const std::vector<Snapshot>& all) {
  std::map<std::string, size_t> times;
  bool as_many = true, shared = false;
  for (const Snapshot& one : all) {
    as_many = as_many && one.ports.size() == all.front().ports.size();
    for (const RdmaPort& port : one.ports) shared = ++times[name_of(port)] > 1 || shared;
  }
  std::map<std::string, std::vector<HostPort>> by_name;
  std::vector<std::vector<HostPort>> by_order;
  for (const Snapshot& one : all) {
    for (size_t i = 0; i < one.ports.size(); ++i) {
      by_name[name_of(one.ports[i])].push_back({&one, &one.ports[i]});
      if (by_order.size() <= i) by_order.emplace_back();
      by_order[i].push_back({&one, &one.ports[i]});
    }
  }
  if (as_many || !shared) return by_order;
  std::vector<std::vector<HostPort>> pairs;
  for (auto& [name, ports] : by_name) pairs.push_back(std::move(ports));
  return pairs;
}

std::optional<Ipv4> parse_ipv4(const std::string& text) {
  const size_t slash = text.find('/');
  in_addr address{};
  if (::inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return std::nullopt;
  const auto bits =
      slash == text.npos ? std::optional<int64_t>(32) : leading_number(text.substr(slash + 1));
  if (!bits || *bits < 0 || *bits > 32) return std::nullopt;
  return Ipv4{ntohl(address.s_addr), *bits == 0 ? 0 : ~uint32_t{0} << (32 - *bits)};
}

std::string print_ipv4(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, (address >> 16) & 255, (address >> 8) & 255,
                     address & 255);
}

bool is_container_interface(const std::string& name) {
  constexpr std::array kBeginnings = {"docker", "br-",     "virbr", "veth",
                                      "cni",    "flannel", "cali",  "podman"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](const char* one) { return begins_with(name, one); });
}

std::optional<Odd> odd_ones(const std::vector<std::pair<std::string, std::string>>& values) {
  std::map<std::string, size_t> counts;
  size_t known = 0;
  for (const auto& [host, value] : values) {
    if (value.empty()) continue;
    ++counts[value];
    ++known;
  }
  if (counts.size() < 2) return std::nullopt;
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  Odd odd;
  odd.usual = most->first;
  odd.tie = 2 * most->second <= known;
  for (const auto& [host, value] : values)
    if (!value.empty() && (odd.tie || value != odd.usual)) odd.hosts.emplace_back(host, value);
  return odd;
}

std::string print_odd(const Odd& odd) {
  std::string text;
  for (size_t i = 0; i < std::min(odd.hosts.size(), kMaxNamed); ++i)
    text += fmt::format("{}{} has {}", i ? ", " : "", odd.hosts[i].first, odd.hosts[i].second);
  if (odd.hosts.size() > kMaxNamed) text += fmt::format(", {} more", odd.hosts.size() - kMaxNamed);
  return odd.tie ? text : fmt::format("{}; the others {}", text, odd.usual);
}

std::string hosts_of(const Odd& odd) {
  std::string text;
  for (const auto& [host, value] : odd.hosts) text += (text.empty() ? "" : ", ") + host;
  return text;
}

}  // namespace ringwood::tools::doctor

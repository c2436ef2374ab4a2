// Network interfaces: /sys/class/net, /proc/sys/net, and what ethtool and dcb know.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/doctor/collect/collect.h"
#include "tools/doctor/collect/kernel.h"
#include "tools/doctor/collect/texts.h"

namespace ringwood::tools::doctor {
namespace {

constexpr size_t kMaxInterfaces = 512;
constexpr int kUp = 1;  // IFF_UP

std::optional<int> small_number(const std::optional<int64_t>& value) {
  if (!value || *value < 0 || *value > INT32_MAX) return std::nullopt;
  return static_cast<int>(*value);
}

// What the kernel does with an interface: the stricter of its own setting and that of all.
void read_settings(const Tree& tree, NetInterface& interface) {
  constexpr std::array kNames = {"arp_ignore", "arp_announce", "arp_filter", "rp_filter"};
  for (const char* name : kNames) {
    const std::string folder = "proc/sys/net/ipv4/conf/";
    const auto own = tree.number(fmt::format("{}{}/{}", folder, interface.name, name));
    const auto all = tree.number(fmt::format("{}all/{}", folder, name));
    if (own || all) interface.settings[name] = std::max(own.value_or(0), all.value_or(0));
  }
}

void read_bond(const Tree& tree, const std::string& folder, NetInterface& interface) {
  const auto mode = tree.text(folder + "bonding/mode");
  if (!mode) return;
  Bond bond;
  bond.mode = mode->substr(0, mode->find(' '));
  const std::string hash = tree.text(folder + "bonding/xmit_hash_policy").value_or("");
  bond.hash = hash.substr(0, hash.find(' '));
  bond.members = words_of(tree.text(folder + "bonding/slaves").value_or(""));
  interface.bond = bond;
}

void read_files(const Tree& tree, const std::string& folder, NetInterface& interface) {
  interface.mtu = small_number(tree.number(folder + "mtu"));
  const auto flags = tree.text(folder + "flags");
  if (const auto bits = leading_number(flags.value_or(""), 16)) interface.up = (*bits & kUp) != 0;
  if (const auto carrier = tree.number(folder + "carrier")) interface.carrier = *carrier == 1;
  const auto speed = tree.number(folder + "speed");
  if (speed && *speed > 0) interface.speed_mbits = speed;
  interface.carrier_changes = tree.number(folder + "carrier_changes");
  interface.physical = tree.exists(folder + "device");
  interface.driver = tree.target(folder + "device/driver");
  const std::string pci = tree.target(folder + "device");
  if (pci.find(':') != pci.npos) interface.pci = pci;
  interface.node = small_number(tree.number(folder + "device/numa_node"));
  for (const std::string& name : tree.names(folder + "statistics"))
    if (const auto value = tree.number(fmt::format("{}statistics/{}", folder, name)))
      interface.counters[name] = *value;
  read_bond(tree, folder, interface);
  read_settings(tree, interface);
}

// Mellanox's driver has them here; others nowhere in /sys.
void read_ecn(Tree& tree, const std::string& folder, NetInterface& interface) {
  for (const char* role : {"roce_np", "roce_rp"}) {
    for (int priority = 0; priority < 8; ++priority) {
      const std::string name = fmt::format("{}/enable/{}", role, priority);
      if (const auto value = tree.number(fmt::format("{}ecn/{}", folder, name)))
        interface.ecn[name] = *value;
    }
  }
  if (interface.ecn.empty())
    tree.miss("ecn", interface.name, "the driver has no ecn folder in /sys/class/net");
}

// Without a row for a DSCP, and without a file that tells, these drivers trust the priority of a
// VLAN: until there is such a row, and again when the last one is gone.
void settle_trust(Tree& tree, const NetInterface& interface, Dcb& dcb) {
  constexpr std::array kByRows = {"mlx5_core", "mlxsw_spectrum", "ice"};
  if (!dcb.trust.empty()) return;
  const bool by_rows = std::find(kByRows.begin(), kByRows.end(), interface.driver) != kByRows.end();
  if (by_rows && dcb.applications_read)
    dcb.trust = "pcp";
  else
    tree.miss("trust", interface.name,
              by_rows ? "the table of applications (dcb app) is not known"
                      : fmt::format("the driver {} does not tell whether it trusts DSCP or pcp",
                                    interface.driver));
}

void read_dcb(Tree& tree, const std::string& folder, NetInterface& interface) {
  Dcb dcb;
  bool told = false;
  std::string why = "no output of mlnx_qos, dcb or lldptool in the tree";
  if (tree.live()) {
    interface.dcb = ask_dcb(interface.name, why);
    if (interface.dcb) dcb = *interface.dcb;
    told = interface.dcb.has_value();
  } else {
    const auto take = [&](const std::string& command, bool (*parse)(const std::string&, Dcb&)) {
      if (const auto text = tree.printed(command)) told = parse(*text, dcb) || told;
    };
    take("mlnx_qos -i " + interface.name, parse_mlnx_qos);
    take("dcb pfc show dev " + interface.name, parse_dcb_pfc);
    take("dcb ets show dev " + interface.name, parse_dcb_ets);
    take("dcb app show dev " + interface.name, parse_dcb_app);
    take("lldptool -t -i " + interface.name + " -V PFC", parse_lldptool_pfc);
    take("lldptool -t -i " + interface.name + " -V APP", parse_lldptool_app);
  }
  const std::string trust = tree.text(folder + "qos/trust").value_or("");  // "[dscp] pcp" or "dscp"
  if (!trust.empty()) {
    const size_t open = trust.find('['), close = trust.find(']');
    dcb.trust = open < close && close != trust.npos ? trust.substr(open + 1, close - open - 1)
                                                    : words_of(trust)[0];
  }
  if (!told) return tree.miss("dcb", interface.name, why);
  settle_trust(tree, interface, dcb);
  interface.dcb = dcb;
}

// Statistics, pause, FEC and versions, from the kernel or as ethtool printed them.
void read_ethtool(Tree& tree, NetInterface& interface) {
  const std::string& name = interface.name;
  const std::string absent = "no output of ethtool in the tree";
  std::string why = absent;
  if (tree.live()) {
    if (const auto driver = ask_driver(name, why)) {
      interface.driver = driver->driver;
      interface.firmware = driver->firmware;
    }
    if (const auto counters = ask_statistics(name, why))
      interface.counters.insert(counters->begin(), counters->end());
    else
      tree.miss("ethtool-statistics", name, why);
    if (!(interface.pause = ask_pause(name, why))) tree.miss("pause", name, why);
    if (const auto fec = ask_fec(name, why))
      interface.fec = *fec;
    else
      tree.miss("fec", name, why);
    return;
  }
  if (const auto text = tree.printed("ethtool -i " + name)) {
    if (interface.driver.empty()) interface.driver = parse_field(*text, "driver");
    interface.firmware = parse_field(*text, "firmware-version");
  }
  if (const auto text = tree.printed("ethtool -S " + name)) {
    const Counters counters = parse_ethtool_statistics(*text);
    interface.counters.insert(counters.begin(), counters.end());
  } else {
    tree.miss("ethtool-statistics", name, absent);
  }
  interface.pause = parse_ethtool_pause(tree.printed("ethtool -a " + name).value_or(""));
  if (!interface.pause) tree.miss("pause", name, absent);
  interface.fec = parse_ethtool_fec(tree.printed("ethtool --show-fec " + name).value_or(""));
  if (interface.fec.empty()) tree.miss("fec", name, absent);
}

bool is_member(const Tree& tree, const std::string& bond, const std::string& name) {
  if (bond.empty()) return false;
  const auto members =
      words_of(tree.text(fmt::format("sys/class/net/{}/bonding/slaves", bond)).value_or(""));
  return std::find(members.begin(), members.end(), name) != members.end();
}

// A bond has neither statistics nor bridging of its own: its members do.
bool is_read_by_members(const Tree& tree, const NetInterface& interface) {
  return interface.bond &&
         std::any_of(interface.bond->members.begin(), interface.bond->members.end(),
                     [&](const std::string& member) {
                       return tree.exists(fmt::format("sys/class/net/{}", member));
                     });
}

// One table for all network namespaces; the kernel tells of it in the first one only. Below a head
// there is a line for each core, of numbers to base 16: the first one is the number of rows.
void read_neighbours(Tree& tree, SystemState& system) {
  const auto text = tree.needed("neighbours", "", "proc/net/stat/arp_cache", true);
  const auto lines = lines_of(text.value_or(""));
  if (lines.size() < 2) return;
  const auto head = words_of(lines[0]);
  const auto full = static_cast<size_t>(std::ranges::find(head, "table_fulls") - head.begin());
  int64_t refused = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto words = words_of(lines[i]);
    if (words.size() != head.size()) continue;
    system.neighbours = leading_number(words[0], 16);
    if (full < words.size()) refused += leading_number(words[full], 16).value_or(0) & 0xffffffff;
  }
  system.neighbours_refused = refused;
  system.neighbours_max = tree.number("proc/sys/net/ipv4/neigh/default/gc_thresh3");
}

}  // namespace

void collect_interfaces(Tree& tree, Snapshot& snapshot) {
  read_neighbours(tree, snapshot.system);
  auto names = tree.names("sys/class/net");
  if (names.empty()) tree.miss("interfaces", "", "sys/class/net is empty or not there");
  if (names.size() > kMaxInterfaces) {
    tree.miss("interfaces", "", fmt::format("{} of {} were read", kMaxInterfaces, names.size()));
    names.resize(kMaxInterfaces);
  }
  const auto printed = tree.printed("ip -o addr");
  if (!tree.live() && !printed) tree.miss("addresses", "", "no output of ip -o addr in the tree");
  const auto addresses = tree.live() ? ask_addresses() : parse_ip_addresses(printed.value_or(""));
  for (const std::string& name : names) {
    const std::string folder = fmt::format("sys/class/net/{}/", name);
    if (!tree.exists(folder + "mtu")) continue;  // bonding_masters is a file
    NetInterface interface;
    interface.name = name;
    read_files(tree, folder, interface);
    if (const auto found = addresses.find(name); found != addresses.end())
      interface.addresses = found->second;
    const bool rail =
        std::any_of(snapshot.ports.begin(), snapshot.ports.end(), [&](const RdmaPort& port) {
          return port.interface == name || is_member(tree, port.interface, name);
        });
    const bool asked = !is_read_by_members(tree, interface);
    if (asked && (rail || (snapshot.ports.empty() && interface.physical)))
      read_ethtool(tree, interface);
    if (asked && rail) {
      read_dcb(tree, folder, interface);
      read_ecn(tree, folder, interface);
    }
    snapshot.interfaces.push_back(interface);
  }
  for (RdmaPort& port : snapshot.ports) {
    const NetInterface* interface = find_interface(snapshot, port.interface);
    if (!port.path_mtu && interface != nullptr && interface->mtu && port.link_layer == "Ethernet")
      port.path_mtu = path_mtu_of(*interface->mtu);
  }
}

}  // namespace ringwood::tools::doctor

// What several rules derive from a snapshot. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/doctor/rules/rules.h"
#include "tools/doctor/snapshot.h"
#include "transports/verbs/rail/gids.h"

namespace ringwood::tools::doctor {

bool is_active(const RdmaPort& port);
bool is_roce(const RdmaPort& port);
// Software devices tell no real rate, and have no DCB, PCI or firmware.
bool is_software(const RdmaPort& port);
bool has_verbs(const Snapshot& snapshot);  // a port that could be used, as far as is known
// The setting that turns verbs off on this host, "NCCL_IB_DISABLE=1"; "": none does.
std::string verbs_off(const Snapshot& snapshot);

// More than nine tenths of a limit are used; false where either is not known.
bool is_nearly_full(std::optional<int64_t> used, std::optional<int64_t> limit);

std::vector<const PciDevice*> gpus(const Snapshot& snapshot);
bool is_nvidia(const PciDevice* device);

// The value of a knob in the process's environment, by its own name or an alias; `name` is the
// variable that sets it. nullopt: none does.
struct EnvironmentSetting {
  std::string name, value;
};
std::optional<EnvironmentSetting> knob_in(const Snapshot& snapshot, const std::string& knob);
std::optional<int64_t> knob_number(const Snapshot& snapshot, const std::string& knob);

// The table of a port as the transport sees it; the GID that a job takes, which a fixed index may
// name; and the one that it would take without such an index.
std::vector<verbs::Gid> gid_table(const Snapshot& snapshot, const RdmaPort& port);
std::optional<verbs::Gid> chosen_gid(const Snapshot& snapshot, const RdmaPort& port,
                                     std::string& why);
std::optional<verbs::Gid> best_gid(const Snapshot& snapshot, const RdmaPort& port,
                                   std::string& why);
// Why it is taken: "NCCL_IB_GID_INDEX=1", or its kind, "RoCE v2, IPv4".
std::string print_choice(const Snapshot& snapshot, const verbs::Gid& gid);
// The IPv4 address of that GID; nullopt: it is of another family.
std::optional<uint32_t> ipv4_of(const verbs::Gid& gid);

// The DSCP of what is sent, the priority that the interface gives it, and whether that is known.
struct Marking {
  int traffic_class = 0, dscp = 0;
  std::string origin;  // "NCCL_IB_TC=106", "the default"
  std::optional<int> priority;
};
Marking marking_of(const Snapshot& snapshot, const RdmaPort& port);

// The interfaces that carry a port's packets: its own, or the members of a bond.
std::vector<const NetInterface*> carriers(const Snapshot& snapshot, const RdmaPort& port);
// Whether the job takes this port: RINGWOOD_VERBS_DEVICES may leave some to others.
bool is_selected(const Snapshot& snapshot, const RdmaPort& port);
// Ports that carry data: active ones that the job takes, by name.
std::vector<const RdmaPort*> rails(const Snapshot& snapshot);
bool is_rail(const Snapshot& snapshot, const std::string& interface);

// Ports of several hosts that belong together, whether they are active or not. Where all hosts have
// as many ports it is their order; else their names, unless no two hosts share one.
struct HostPort {
  const Snapshot* host = nullptr;
  const RdmaPort* port = nullptr;
};
std::vector<std::vector<HostPort>> paired_ports(const std::vector<Snapshot>& all);

// "10.0.0.1/24" as an IPv4 network; nullopt for others.
struct Ipv4 {
  uint32_t address = 0, mask = 0;
  uint32_t network() const { return address & mask; }
};
std::optional<Ipv4> parse_ipv4(const std::string& text);
std::string print_ipv4(uint32_t address);

bool is_container_interface(const std::string& name);

// Who differs: the value that most hosts have, and the others with theirs.
struct Odd {
  std::string usual;
  bool tie = false;  // no value has a majority
  std::vector<std::pair<std::string, std::string>> hosts;
};
// nullopt: all are equal. Empty values are unknown and take no part.
std::optional<Odd> odd_ones(const std::vector<std::pair<std::string, std::string>>& values);
// "host7 has 1500, the others 4200", and the hosts for Finding::host.
std::string print_odd(const Odd& odd);
std::string hosts_of(const Odd& odd);

}  // namespace ringwood::tools::doctor

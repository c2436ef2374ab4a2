// All that `ringwood doctor` knows about one host: a value, which is also a JSON document.
//
// Collectors (collect.h) fill it, from this machine, from the tree of another one, or from a file;
// rules (rules.h) read it and nothing else, so that what was diagnosed can be diagnosed again.
// 1. What is not known is absent: nullopt, an empty text or an empty list, never a made up number.
// 2. What could not be read, and was not only absent, is a Gap with the reason.
// 3. A document is untrusted: from_text() checks types and sizes, and what is missing in it stays
//    as it is in an empty snapshot. Unknown keys are ignored, so newer documents can be read.
// 4. Texts are UTF-8 without control characters; names of devices, which --fix puts into commands,
//    are letters, digits and "_.:@-". cleaned() makes them so.
// Units: bytes, bits per second where a name says so, seconds. Values; any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringwood::tools::doctor {

using Counters = std::map<std::string, int64_t>;

// Something that a rule needs (rules.h names the needs) and that could not be read.
struct Gap {
  std::string need;   // "dcb"
  std::string where;  // "eth0"; empty: of the host
  std::string reason;
};

struct GidRow {
  int index = 0;
  std::string address;    // "fe80:0000:...", as the kernel writes it
  std::string type;       // "RoCE v2", "IB/RoCE v1"
  std::string interface;  // "": it is not in this network namespace
};

// A port of an RDMA device.
struct RdmaPort {
  std::string device;
  int number = 1;
  std::string driver, firmware, board, pci;
  std::string state, phys_state, link_layer;  // "ACTIVE", "LinkUp", "Ethernet"
  std::optional<double> rate_gbits;
  std::optional<int> path_mtu;
  std::string interface;  // of the first GID that has one
  std::vector<GidRow> gids;
  Counters counters;                         // hw_counters and counters
  std::optional<int> traffic_class;          // forced by the host on all queue pairs
  std::optional<int> cm_tos;                 // rdma_cm's default; ours are made without it
  std::optional<bool> device_file;           // /dev/infiniband/uverbsN is there
  std::optional<bool> device_file_writable;  // by this process
  std::optional<bool> in_library;            // libibverbs lists the device: it has its provider
};
std::string name_of(const RdmaPort& port);  // "mlx5_0/1"

// Data center bridging: how packets get their priority, and which priorities lose none.
struct Dcb {
  std::string trust;                    // "dscp", "pcp", "" unknown
  std::vector<int> pfc;                 // of 8 priorities: 1 enabled
  std::vector<int> traffic_classes;     // of 8 priorities
  std::map<int, int> dscp_to_priority;  // where it is not the default
  bool applications_read = false;       // the table that has these rows, which may be empty
};

struct Pause {
  bool receive = false, send = false;
};

struct Bond {
  std::string mode;  // "802.3ad"
  std::string hash;  // "layer3+4"
  std::vector<std::string> members;
};

struct NetInterface {
  std::string name;
  bool physical = false;  // has a device
  std::optional<int> mtu, node;
  std::optional<bool> up, carrier;
  std::optional<int64_t> speed_mbits, carrier_changes;
  std::string driver, firmware, pci, fec;
  std::vector<std::string> addresses;  // "10.0.0.1/24"
  Counters settings;                   // arp_ignore, arp_announce, arp_filter, rp_filter
  Counters counters;                   // ethtool -S, or the kernel's own
  std::optional<Pause> pause;
  std::optional<Dcb> dcb;
  std::optional<Bond> bond;
  Counters ecn;  // "roce_np/enable/3": 1
};

struct PciDevice {
  std::string address, vendor, device, kind, driver;  // kind: the class, "0x020000"
  std::optional<double> speed, max_speed;             // GT/s
  std::optional<int> width, max_width, node, max_read_request;
  std::optional<bool> relaxed_ordering;  // enabled in its control register
  std::optional<int> acs_control;        // of the ACS capability; none: it has no such capability
  std::optional<bool> ats;               // enabled; none: it has no such capability
  std::vector<std::string> bridges;      // those above it, the root port first
  std::string iommu;  // type of its IOMMU group: "DMA-FQ", "identity"; "" unknown
};

// As NVIDIA's driver tells of it (nvidia-smi).
struct Gpu {
  int index = 0;
  std::string model, pci, version;    // version: of the driver; pci: as in PciDevice
  std::optional<int64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::optional<int> nvlinks, nvlinks_up;
  std::map<std::string, std::string> paths;  // to "GPU1" and "mlx5_0": "NV12", "PIX", ..., "SYS"
  std::map<std::string, std::string> peers;  // reads of "GPU1"'s memory: "OK", "CNS", ...
};

struct Route {
  std::string interface;
  uint32_t destination = 0, mask = 0;  // host byte order
  std::string gateway;                 // "" on the link
};

// What a process's control group, or one above it, allows; of several, the one with the least left.
struct GroupLimits {
  // Bytes. What is used is without the page cache, which the kernel drops when memory is short;
  // shared memory, as in /dev/shm, is a part of it.
  std::optional<int64_t> memory, memory_used, memory_shared;
  std::optional<int64_t> memory_kills;           // processes that were killed for lack of memory
  std::optional<int64_t> threads, threads_used;  // of all processes
  std::optional<int64_t> threads_refused;        // how often the limit was met
};

// The process that was looked at: of this command, or of a rank.
struct ProcessState {
  int64_t pid = 0;
  std::optional<int> rank;
  std::optional<int> uid;
  std::optional<int64_t> memlock_soft, memlock_hard, files_soft;  // -1: unlimited
  std::optional<int64_t> files_open;
  std::optional<uint64_t> capabilities;            // effective
  std::optional<bool> user_namespace;              // capabilities are valid in it only
  std::vector<int> cores;                          // that it may run on
  std::map<std::string, std::string> rdma_limits;  // cgroup: device, limits
  std::optional<double> cpu_quota;                 // cgroup: time, in cores; none: no limit
  GroupLimits group;
  std::map<std::string, std::string> environment;  // of communication only
};

struct SystemState {
  std::string kernel, command_line, version;      // version: of ringwood
  double uptime_s = 0;                            // when it was looked at; orders two samples
  std::optional<double> clock_s;                  // since 1970, when all hosts had met
  bool virtual_machine = false;                   // as the processor says
  std::vector<std::string> modules;               // those that matter here
  std::map<std::string, std::vector<int>> nodes;  // memory node -> its cores
  std::map<std::string, int> governors;           // of clocks: cores that have it
  std::optional<int> overcommit;                  // vm.overcommit_memory
  std::optional<int64_t> shm_bytes;
  std::optional<int64_t> files_open, files_max;  // of all processes
  // The kernel's table of IPv4 neighbours: rows, at most, and how often there was no room.
  std::optional<int64_t> neighbours, neighbours_max, neighbours_refused;
  std::optional<int64_t> memory_bytes;                      // of the host
  std::optional<int64_t> huge_page_bytes, huge_bytes_free;  // reserved; of those, nobody's
  std::string gpu_fault;                   // what nvidia-smi says is wrong; "": nothing
  std::optional<int> gpus_permitted;       // of NVIDIA, that this process may open
  std::string verbs_library;               // "loaded", or why not; "" unknown
  std::vector<std::string> own_addresses;  // that the host's own name means
  std::vector<std::string> firewall;       // rules that drop or reject, or name port 4791
  std::vector<Route> routes;
  std::optional<std::vector<std::string>> policy_rules;  // of ip rule, beyond the kernel's three
  std::string chosen_address;   // that ranks offer to others: "10.0.0.1 (eth0: ...)"
  std::string refused_address;  // why there is none
};

// A GID that moved in a port's table between two samples, or that went away.
struct GidMove {
  std::string where, address, type;  // "mlx5_0/1"
  int before = 0;
  std::optional<int> after;  // none: it is gone
};

// What counters did between two samples.
struct Rise {
  std::string where, counter;  // "mlx5_0/1", "eth0" or kNeighbours
  int64_t amount = 0;
};

inline constexpr const char* kNeighbours = "neighbours";
inline constexpr const char* kTableFull = "table_fulls";  // as the kernel calls it
inline constexpr int kMaxDepth = 64;                      // of lists and objects in a document

struct Snapshot {
  int format = 1;
  std::string host, token;  // token: hosts of one name differ in it
  std::vector<int> ranks;
  ProcessState process;
  std::vector<ProcessState> others;  // of the job's other ranks on this host
  SystemState system;
  std::vector<RdmaPort> ports;
  std::vector<NetInterface> interfaces;
  std::vector<PciDevice> pci;
  std::vector<Gpu> gpus;
  std::vector<Gap> gaps;
  std::optional<double> seconds;  // between the two samples; none: there is one
  std::vector<Rise> rises;
  std::vector<GidMove> moves;
};

std::string to_text(const Snapshot& snapshot, int indent = -1);
// One host's object, or a list of several hosts'.
std::string to_text(const std::vector<Snapshot>& snapshots);
// Throw Error(invalid_argument) that names `origin`.
Snapshot from_text(const std::string& text, const std::string& origin);
std::vector<Snapshot> snapshots_from_text(const std::string& text, const std::string& origin);
// Of what the JSON library says of a text, that which is for people.
std::string reason_of(const std::exception& error);

// The same with texts as in rule 4; collectors and from_text() call it.
Snapshot cleaned(const Snapshot& snapshot);

// The later one, with what has risen since. A counter that fell (a driver was loaded anew) has not.
Snapshot with_rises(const Snapshot& earlier, Snapshot later, double seconds);

const NetInterface* find_interface(const Snapshot& snapshot, const std::string& name);
const PciDevice* find_pci(const Snapshot& snapshot, const std::string& address);
// The amount by which a counter rose there; 0: it did not, or is not known.
int64_t rise(const Snapshot& snapshot, const std::string& where, const std::string& counter);

}  // namespace ringwood::tools::doctor

#include "tools/perf/perf_counters.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace ringwood::tools {
namespace {

namespace fs = std::filesystem;

// Of Mellanox's driver and of Soft-RoCE, then those that every port has.
constexpr const char* kOfPorts[] = {
    "out_of_sequence",    "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err",
    "rnr_nak_retry_err",  "out_of_buffer",  "duplicate_request",   "roce_adp_retrans",
    "roce_slow_restart",  "np_cnp_sent",    "rp_cnp_handled",      "np_ecn_marked_roce_packets",
    "out_of_seq_request", "rcvd_seq_err",   "completer_retry_err", "retry_exceeded_err",
    "rcvd_rnr_err",       "send_rnr_err",   "link_downed",         "symbol_error",
    "port_rcv_errors",    "port_xmit_wait", "port_xmit_discards",  "link_error_recovery",
};
// Of the kernel, for each network interface.
constexpr const char* kOfInterfaces[] = {"rx_dropped",     "tx_dropped",       "rx_errors",
                                         "tx_errors",      "rx_missed_errors", "rx_crc_errors",
                                         "rx_fifo_errors", "tx_carrier_errors"};
// Of /proc/net/snmp and /proc/net/netstat.
constexpr const char* kOfTcp[] = {"Tcp.RetransSegs",           "Tcp.InErrs",
                                  "Udp.RcvbufErrors",          "TcpExt.TCPLostRetransmit",
                                  "TcpExt.TCPFastRetrans",     "TcpExt.TCPSlowStartRetrans",
                                  "TcpExt.TCPTimeouts",        "TcpExt.TCPSACKReorder",
                                  "TcpExt.TCPTSReorder",       "TcpExt.TCPOFOQueue",
                                  "TcpExt.TCPBacklogDrop",     "TcpExt.TCPRcvQDrop",
                                  "TcpExt.TCPRcvCollapsed",    "TcpExt.TCPAbortOnTimeout",
                                  "TcpExt.TCPMemoryPressures", "IpExt.InCEPkts"};
// In the names that drivers give.
constexpr std::string_view kTelling[] = {"discard", "drop",    "pause",  "out_of_buffer", "crc",
                                         "timeout", "retrans", "ecn",    "cnp",           "error",
                                         "_err",    "no_dma",  "missed", "symbol"};

constexpr size_t kMaxStatistics = 16384;  // of a driver

bool tells(std::string_view name) {
  return std::ranges::any_of(
      kTelling, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// Of a driver: "tx_prio3_bytes", "rx_prio3_bytes".
bool counts_priority(std::string_view name) {
  return name.ends_with("_bytes") && (name.starts_with("tx_prio") || name.starts_with("rx_prio"));
}

struct ByteCounter {
  const char *file, *name;
  int64_t unit;
};
// InfiniBand counts words of four bytes.
constexpr ByteCounter kBytesOfPorts[] = {{"port_xmit_data", "sent_bytes", 4},
                                         {"port_rcv_data", "received_bytes", 4}};
constexpr ByteCounter kBytesOfInterfaces[] = {{"tx_bytes", "sent_bytes", 1},
                                              {"rx_bytes", "received_bytes", 1}};

template <size_t n>
void read_bytes(const fs::path& folder, const ByteCounter (&counters)[n],
                std::map<std::string, int64_t>& values) {
  for (const ByteCounter& counter : counters) {
    int64_t value = 0;
    if (std::ifstream(folder / counter.file) >> value) values[counter.name] = value * counter.unit;
  }
}

bool is_up(const fs::path& interface) {
  int carrier = 0;
  return (std::ifstream(interface / "carrier") >> carrier) && carrier == 1;
}

void read_files(const fs::path& folder, const char* const* names, size_t count,
                std::map<std::string, int64_t>& values) {
  for (size_t i = 0; i < count; ++i) {
    int64_t value = 0;
    if (std::ifstream(folder / names[i]) >> value) values[names[i]] = value;
  }
}

// What ioctl() is asked by.
struct Socket final {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Socket() = default;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

bool ask_driver(int socket, const std::string& interface, void* request) {
  ifreq asked{};
  interface.copy(asked.ifr_name, IFNAMSIZ - 1);
  asked.ifr_data = static_cast<char*>(request);
  return ::ioctl(socket, SIOCETHTOOL, &asked) == 0;
}

// The kernel writes as many as the driver then has, whatever number it was told: there is room for
// more than it has named.
std::map<std::string, int64_t> driver_statistics(int socket, const std::string& interface) {
  std::vector<uint32_t> answer((sizeof(ethtool_sset_info) + sizeof(uint32_t)) / sizeof(uint32_t) +
                               1);
  auto* const sets = reinterpret_cast<ethtool_sset_info*>(answer.data());
  sets->cmd = ETHTOOL_GSSET_INFO;
  sets->sset_mask = uint64_t{1} << ETH_SS_STATS;
  if (!ask_driver(socket, interface, sets) || sets->sset_mask == 0) return {};
  const uint32_t count = answer[sizeof(ethtool_sset_info) / sizeof(uint32_t)];
  if (count == 0 || count > kMaxStatistics) return {};
  const size_t room = 2 * size_t{count} + 1024;
  std::vector<char> names(sizeof(ethtool_gstrings) + room * ETH_GSTRING_LEN);
  std::vector<uint64_t> values(sizeof(ethtool_stats) / sizeof(uint64_t) + room);
  auto* const strings = reinterpret_cast<ethtool_gstrings*>(names.data());
  auto* const statistics = reinterpret_cast<ethtool_stats*>(values.data());
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_STATS;
  strings->len = count;
  statistics->cmd = ETHTOOL_GSTATS;
  statistics->n_stats = count;
  if (!ask_driver(socket, interface, strings) || !ask_driver(socket, interface, statistics))
    return {};
  std::map<std::string, int64_t> found;
  for (size_t i = 0; i < count; ++i) {
    const char* const name = names.data() + sizeof(ethtool_gstrings) + i * ETH_GSTRING_LEN;
    const std::string text(name, ::strnlen(name, ETH_GSTRING_LEN));
    if (tells(text) || counts_priority(text))
      found[text] = static_cast<int64_t>(values[sizeof(ethtool_stats) / sizeof(uint64_t) + i]);
  }
  return found;
}

// Pairs of lines: "Tcp: RtoAlgorithm RtoMin ..." and "Tcp: 1 200 ...".
void read_protocols(const std::string& file, std::map<std::string, int64_t>& values) {
  std::ifstream in(file);
  for (std::string heads, numbers; std::getline(in, heads) && std::getline(in, numbers);) {
    std::istringstream names(heads), amounts(numbers);
    std::string protocol, again;
    if (!(names >> protocol) || !(amounts >> again) || protocol != again) return;
    protocol.back() = '.';
    int64_t value = 0;
    for (std::string name; names >> name && amounts >> value;) {
      const std::string full = protocol + name;
      if (std::ranges::find(kOfTcp, full) != std::end(kOfTcp)) values[full] = value;
    }
  }
}

// Of what is there both times, by how much it is more now.
Counters rise_of(const Counters& before, const Counters& now) {
  Counters result;
  for (const auto& [device, values] : now) {
    const auto known = before.find(device);
    if (known == before.end()) continue;
    for (const auto& [counter, value] : values) {
      const auto old = known->second.find(counter);
      if (old != known->second.end())
        result[device][counter] = std::max<int64_t>(0, value - old->second);
    }
  }
  return result;
}

// What a peer says is only read as numbers by name.
Counters counters_in(const nlohmann::json& json, const char* key) {
  Counters counters;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return counters;
  for (const auto& [device, values] : found->items())
    for (const auto& [counter, rise] : values.items())
      if (rise.is_number_integer()) counters[device][counter] = rise.get<int64_t>();
  return counters;
}

}  // namespace

NetworkCounters::NetworkCounters(std::string root) : root_(std::move(root)), before_(read()) {}

void NetworkCounters::read_ports(Readings& now) const {
  std::error_code error;
  for (const auto& device : fs::directory_iterator(root_ + "/sys/class/infiniband", error)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", error)) {
      const std::string name =
          "rdma " + device.path().filename().string() + "/" + port.path().filename().string();
      for (const char* folder : {"hw_counters", "counters"})
        read_files(port.path() / folder, kOfPorts, std::size(kOfPorts), now.telling[name]);
      read_bytes(port.path() / "counters", kBytesOfPorts, now.bytes[name]);
    }
  }
}

void NetworkCounters::read_interfaces(Readings& now) const {
  std::error_code error;
  const Socket socket;
  for (const auto& entry : fs::directory_iterator(root_ + "/sys/class/net", error)) {
    const std::string name = entry.path().filename().string();
    if (name == "lo") continue;
    auto& found = now.telling[name];
    read_files(entry.path() / "statistics", kOfInterfaces, std::size(kOfInterfaces), found);
    const bool up = is_up(entry.path());
    if (up) read_bytes(entry.path() / "statistics", kBytesOfInterfaces, now.bytes[name]);
    if (!root_.empty() || socket.fd < 0) continue;
    for (const auto& [counter, value] : driver_statistics(socket.fd, name)) {
      if (!counts_priority(counter))
        found.emplace(counter, value);
      else if (up)
        now.bytes[name].emplace(counter, value);
    }
  }
}

NetworkCounters::Readings NetworkCounters::read() const {
  Readings now;
  read_ports(now);
  read_interfaces(now);
  for (const char* file : {"/proc/net/snmp", "/proc/net/netstat"})
    read_protocols(root_ + file, now.telling["tcp"]);
  return now;
}

NetworkCounters::Readings NetworkCounters::since() const {
  const Readings now = read();
  Readings result{{}, rise_of(before_.bytes, now.bytes)};
  for (const auto& [device, values] : rise_of(before_.telling, now.telling))
    for (const auto& [counter, rise] : values)
      if (rise > 0) result.telling[device][counter] = rise;
  return result;
}

std::optional<int64_t> value_of(const std::map<std::string, int64_t>& device,
                                const std::string& counter) {
  const auto found = device.find(counter);
  return found == device.end() ? std::nullopt : std::optional(found->second);
}

std::string print_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string line_of_traffic(const Counters& traffic) {
  std::string line;
  for (const auto& [device, values] : traffic) {
    const int64_t sent = value_of(values, "sent_bytes").value_or(0);
    const int64_t received = value_of(values, "received_bytes").value_or(0);
    if (!device.starts_with("rdma ") && sent + received == 0) continue;
    line += fmt::format("{}{} sent {}, received {}", line.empty() ? "" : "; ", device,
                        print_bytes(sent), print_bytes(received));
  }
  return line;
}

Counters rdma_only(const Counters& counters) {
  Counters ports;
  for (const auto& [device, values] : counters)
    if (device.starts_with("rdma ")) ports[device.substr(5)] = values;
  return ports;
}

std::vector<std::string> lines_of(const Counters& risen) {
  std::vector<std::string> lines;
  for (const auto& [device, values] : risen) {
    std::string line;
    for (const auto& [counter, rise] : values)
      line += fmt::format("{}{} +{}", line.empty() ? "" : ", ", counter, rise);
    if (!line.empty()) lines.push_back(fmt::format("{}: {}", device, line));
  }
  return lines;
}

std::vector<HostCounters> gather_counters(Communicator& group, const std::vector<HostRanks>& hosts,
                                          const NetworkCounters* mine) {
  std::string own;
  if (mine != nullptr) {
    const auto [telling, bytes] = mine->since();
    own = nlohmann::json{{"risen", telling}, {"traffic", bytes}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  const auto texts = gather_texts(group, own);
  std::vector<HostCounters> all;
  for (const HostRanks& host : hosts) {
    const auto json =
        nlohmann::json::parse(texts[static_cast<size_t>(host.ranks.front())], nullptr, false);
    HostCounters& one = all.emplace_back(HostCounters{host.name, host.ranks, {}, {}});
    if (!json.is_object()) continue;
    one.risen = counters_in(json, "risen");
    one.traffic = counters_in(json, "traffic");
  }
  return all;
}

}  // namespace ringwood::tools

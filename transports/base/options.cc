#include "transports/base/options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <string_view>

#include "transports/base/error.h"
#include "transports/base/options_text.h"

namespace ringwood {
namespace {

using std::chrono::milliseconds;

void parse_port_range(const std::string& text, Options& options) {
  size_t dash = text.find('-');
  try {
    int first = parse_number<int>(text.substr(0, dash), 0, 65535);
    int last = dash == text.npos ? first : parse_number<int>(text.substr(dash + 1), 0, 65535);
    if (first > last || (first == 0) != (last == 0)) throw Expected();
    options.port_first = first;
    options.port_last = last;
  } catch (const Expected&) {
    throw Expected("ports as first-last, such as 50000-50010, or 0-0 for any");
  }
}

constexpr std::string_view kLevels[] = {"error", "warn", "info", "debug"};

LogLevel parse_level(const std::string& text) {
  auto found = std::find(std::begin(kLevels), std::end(kLevels), text);
  if (found == std::end(kLevels)) throw Expected("error, warn, info or debug");
  return static_cast<LogLevel>(found - std::begin(kLevels));
}

void parse_calibration(const std::string& text, Options& options) {
  if (text != "keep" && text != "refresh" && text != "off") throw Expected("keep, refresh or off");
  options.calibration = text;
}

void parse_family(const std::string& text, Options& options) {
  if (text != "AF_INET" && text != "AF_INET6") throw Expected("AF_INET or AF_INET6");
  options.verbs.address_family = text;
}

// The field of a row, wherever it is nested.
auto& field(auto& options, int Options::*member) { return options.*member; }
auto& field(auto& options, int VerbsOptions::*member) { return options.verbs.*member; }

template <auto member, int lowest, int highest>
void number(const std::string& text, Options& options) {
  field(options, member) = parse_number(text, lowest, highest);
}

template <auto member>
std::string show_number(const Options& options) {
  return std::to_string(field(options, member));
}

struct Row {
  const char* name;
  std::array<const char*, 3> aliases;  // null: no more
  const char* description;
  void (*parse)(const std::string& text, Options& options);
  std::string (*show)(const Options& options);
};

// Every knob: parsing, describe() and the search for unknown names all read this table.
using Text = const std::string&;
constexpr Row kTable[] = {
    {"RINGWOOD_TRANSPORTS",
     {},
     "transports that may be used, in order of preference (empty: all)",
     [](Text text, Options& o) { o.transports = parse_list(text); },
     [](const Options& o) { return fmt::format("{}", fmt::join(o.transports, ",")); }},
    {"RINGWOOD_SOCKET_IFNAME",
     {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"},
     "interfaces: prefix, =exact, ^exclude, or CIDR, comma separated (empty: the route to the "
     "master)",
     [](Text text, Options& o) { o.socket_interface = text; },
     [](const Options& o) { return o.socket_interface; }},
    {"RINGWOOD_TCP_SOCKETS",
     {},
     "TCP connections per pair of ranks (0: by the cores that are free)",
     [](Text text, Options& o) { o.tcp_sockets = parse_number(text, 0, 16); },
     [](const Options& o) { return std::to_string(o.tcp_sockets); }},
    {"RINGWOOD_LISTEN_ANY",
     {},
     "1: rank 0's store listens on all addresses of its host, not only on those it is known by",
     [](Text text, Options& o) { o.listen_any = parse_number(text, 0, 1) != 0; },
     [](const Options& o) { return std::string(o.listen_any ? "1" : "0"); }},
    {"RINGWOOD_PORT_RANGE",
     {},
     "ports to listen on, first-last (0-0: the kernel's choice)",
     parse_port_range,
     [](const Options& o) { return fmt::format("{}-{}", o.port_first, o.port_last); }},
    {"RINGWOOD_TIMEOUT",
     {},
     "seconds an operation may take when the caller gave no timeout",
     [](Text text, Options& o) { o.timeout = parse_seconds(text); },
     [](const Options& o) { return show_seconds(o.timeout); }},
    {"RINGWOOD_INIT_TIMEOUT",
     {},
     "seconds for all ranks to meet",
     [](Text text, Options& o) { o.init_timeout = parse_seconds(text); },
     [](const Options& o) { return show_seconds(o.init_timeout); }},
    {"RINGWOOD_HEARTBEAT_MS",
     {},
     "milliseconds between heartbeats; silence of 6 is warned about, 12 are a loss",
     [](Text text, Options& o) { o.heartbeat = milliseconds(parse_number(text, 10, 60000)); },
     [](const Options& o) { return std::to_string(o.heartbeat.count()); }},
    {"RINGWOOD_KEY_FILE",
     {},
     "file (mode 0600) with 32 random bytes that all connections must know (empty: a session key)",
     [](Text text, Options& o) { o.key_file = text; },
     [](const Options& o) { return o.key_file; }},
    {"RINGWOOD_HOST_ID",
     {"NCCL_HOSTID"},
     "ranks with different values are treated as on different hosts (empty: detected)",
     [](Text text, Options& o) { o.host_id = text; },
     [](const Options& o) { return o.host_id; }},
    {"RINGWOOD_NUMA_NODE",
     {},
     "the memory node that this rank is said to run on (-1: where it may run)",
     [](Text text, Options& o) { o.numa_node = parse_number(text, -1, 4095); },
     [](const Options& o) { return std::to_string(o.numa_node); }},
    {"RINGWOOD_SHM_RING_BYTES",
     {},
     "shared memory per direction and pair of ranks, a power of two",
     [](Text text, Options& o) {
       o.shm_ring_bytes = parse_bytes(text, 4096, size_t{1} << 30, true);
     },
     [](const Options& o) { return std::to_string(o.shm_ring_bytes); }},
    {"RINGWOOD_VERBS_DISABLE",
     {"NCCL_IB_DISABLE"},
     "1: no InfiniBand or RoCE",
     [](Text text, Options& o) { o.verbs.disable = parse_number(text, 0, 1) != 0; },
     [](const Options& o) { return std::string(o.verbs.disable ? "1" : "0"); }},
    {"RINGWOOD_VERBS_DEVICES",
     {"NCCL_IB_HCA"},
     "verbs devices: prefix, =exact, ^exclude, name:port, comma separated (empty: all active)",
     [](Text text, Options& o) { o.verbs.devices = text; },
     [](const Options& o) { return o.verbs.devices; }},
    {"RINGWOOD_VERBS_GID_INDEX",
     {"NCCL_IB_GID_INDEX"},
     "index of the GID on every device (-1: the best one of each)",
     number<&VerbsOptions::gid_index, -1, 65535>,
     show_number<&VerbsOptions::gid_index>},
    {"RINGWOOD_VERBS_ADDRESS_FAMILY",
     {"NCCL_IB_ADDR_FAMILY"},
     "AF_INET or AF_INET6: only such GIDs (empty: both, IPv4 first)",
     parse_family,
     [](const Options& o) { return o.verbs.address_family; }},
    {"RINGWOOD_VERBS_ADDRESS_RANGE",
     {"NCCL_IB_ADDR_RANGE"},
     "only GIDs of this range, such as 10.0.0.0/8 (empty: all)",
     [](Text text, Options& o) { o.verbs.address_range = text; },
     [](const Options& o) { return o.verbs.address_range; }},
    {"RINGWOOD_VERBS_ROCE_VERSION",
     {"NCCL_IB_ROCE_VERSION_NUM"},
     "1 or 2: the version of RoCE that is preferred",
     number<&VerbsOptions::roce_version, 1, 2>,
     show_number<&VerbsOptions::roce_version>},
    {"RINGWOOD_VERBS_TRAFFIC_CLASS",
     {"NCCL_IB_TC"},
     "traffic class of verbs: DSCP times 4, plus ECN",
     number<&VerbsOptions::traffic_class, 0, 255>,
     show_number<&VerbsOptions::traffic_class>},
    {"RINGWOOD_VERBS_SL",
     {"NCCL_IB_SL"},
     "service level of verbs",
     number<&VerbsOptions::service_level, 0, 15>,
     show_number<&VerbsOptions::service_level>},
    {"RINGWOOD_VERBS_TIMEOUT",
     {"NCCL_IB_TIMEOUT"},
     "t: an unacknowledged packet is sent again after 4.096 us * 2^t",
     number<&VerbsOptions::timeout, 1, 31>,
     show_number<&VerbsOptions::timeout>},
    {"RINGWOOD_VERBS_RETRIES",
     {"NCCL_IB_RETRY_CNT"},
     "so many times, before the path is dropped",
     number<&VerbsOptions::retries, 0, 7>,
     show_number<&VerbsOptions::retries>},
    {"RINGWOOD_VERBS_QPS",
     {"NCCL_IB_QPS_PER_CONNECTION"},
     "queue pairs per rail and link",
     number<&VerbsOptions::queue_pairs, 1, 128>,
     show_number<&VerbsOptions::queue_pairs>},
    {"RINGWOOD_VERBS_PKEY",
     {"NCCL_IB_PKEY"},
     "index of the partition key",
     number<&VerbsOptions::partition, 0, 65535>,
     show_number<&VerbsOptions::partition>},
    {"RINGWOOD_VERBS_RING_BYTES",
     {},
     "registered memory per direction and link, a power of two",
     [](Text text, Options& o) { o.verbs.ring_bytes = parse_bytes(text, 65536, 1u << 30, true); },
     [](const Options& o) { return std::to_string(o.verbs.ring_bytes); }},
    {"RINGWOOD_VERBS_REGISTERED_BYTES",
     {},
     "the most of shared buffers that is registered per rail; 0: all are copied",
     [](Text text, Options& o) {
       o.verbs.registered_bytes = parse_bytes(text, 0, size_t{1} << 50, false);
     },
     [](const Options& o) { return std::to_string(o.verbs.registered_bytes); }},
    {"RINGWOOD_ALGORITHM",
     {},
     "overrides the choice, such as all_reduce:ring,broadcast:binomial",
     [](Text text, Options& o) { o.algorithm = text; },
     [](const Options& o) { return o.algorithm; }},
    {"RINGWOOD_SEGMENT_BYTES",
     {},
     "pipeline grain: about the size of one segment's message",
     [](Text text, Options& o) { o.segment_bytes = parse_bytes(text, 1, size_t{1} << 30, false); },
     [](const Options& o) { return std::to_string(o.segment_bytes); }},
    {"RINGWOOD_CALIBRATION",
     {},
     "figures of this host for the choice of algorithms: keep (a file), refresh it, or off",
     parse_calibration,
     [](const Options& o) { return o.calibration; }},
    {"RINGWOOD_REPRODUCIBLE",
     {},
     "1: add in the order of the ranks, so that results do not depend on algorithm or placement",
     [](Text text, Options& o) { o.reproducible = parse_number(text, 0, 1) != 0; },
     [](const Options& o) { return std::string(o.reproducible ? "1" : "0"); }},
    {"RINGWOOD_TOLERANCE",
     {},
     "relative error that fp32 sums between hosts may have, in fewer bytes (0: exact)",
     [](Text text, Options& o) { o.tolerance = parse_tolerance(text); },
     [](const Options& o) { return fmt::format("{}", o.tolerance); }},
    {"RINGWOOD_SHARE_TENSORS",
     {},
     "torch tensors from this size on need no copies inside a host (0: only ringwood.empty's)",
     [](Text text, Options& o) { o.share_tensors = parse_bytes(text, 0, size_t{1} << 40, false); },
     [](const Options& o) { return std::to_string(o.share_tensors); }},
    {"RINGWOOD_REMAP",
     {},
     "buffers from this size on that are used repeatedly become shared in place (0: never)",
     [](Text text, Options& o) { o.remap = parse_bytes(text, 0, size_t{1} << 40, false); },
     [](const Options& o) { return std::to_string(o.remap); }},
    {"RINGWOOD_IN_FLIGHT",
     {},
     "collectives of a group that may be under way at once, alike on all ranks",
     number<&Options::in_flight, 1, kMaxInFlight>,
     show_number<&Options::in_flight>},
    {"RINGWOOD_SPIN_US",
     {},
     "microseconds to spin before yielding (-1: the measured default; 0: sleep at once)",
     [](Text text, Options& o) { o.spin_us = parse_number(text, -1, 1000000); },
     [](const Options& o) { return std::to_string(o.spin_us); }},
    {"RINGWOOD_SIMD",
     {},
     "highest instruction set of the kernels (empty: the machine's best)",
     [](Text text, Options& o) { o.simd = text; },
     [](const Options& o) { return o.simd; }},
    {"RINGWOOD_LOG",
     {},
     "error, warn, info or debug",
     [](Text text, Options& o) { o.log_level = parse_level(text); },
     [](const Options& o) { return std::string(kLevels[static_cast<int>(o.log_level)]); }},
};

// The variable that sets `row`: its own name before the aliases; null if none is set to anything.
const char* set_by(const Row& row, const char*& value) {
  std::vector<const char*> names = {row.name};
  names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  for (const char* name : names) {
    value = name ? std::getenv(name) : nullptr;
    if (value && *value) return name;
  }
  return nullptr;
}

// A communicator is made many times in one process; the same hint is given once.
void warn_once(LogLevel level, const std::string& text) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (seen->insert(text).second) log(level, "options", text);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

void warn_about_unknown() {
  constexpr std::string_view kPrefix = "RINGWOOD_";
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    const Row* nearest = nullptr;
    size_t distance = SIZE_MAX;
    for (const Row& row : kTable) {
      size_t d = edit_distance(name, row.name);
      if (d < distance) distance = d, nearest = &row;
    }
    if (distance == 0) continue;
    warn_once(LogLevel::warn,
              fmt::format("{} is not a known variable and has no effect; the nearest is {}", name,
                          nearest->name));
  }
}

bool is_alias(std::string_view name) {
  return std::any_of(std::begin(kTable), std::end(kTable), [&](const Row& row) {
    return std::any_of(row.aliases.begin(), row.aliases.end(),
                       [&](const char* alias) { return alias && name == alias; });
  });
}

// A cluster's job script sets many; its author should see which of them do nothing.
void name_what_is_ignored() {
  constexpr std::string_view kPrefix = "NCCL_";
  std::set<std::string_view> ignored;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    const bool set = text.size() > name.size() + 1;
    if (set && name.substr(0, kPrefix.size()) == kPrefix && !is_alias(name)) ignored.insert(name);
  }
  if (!ignored.empty())
    warn_once(LogLevel::info, fmt::format("set, but has no counterpart here and is ignored: {}",
                                          fmt::join(ignored, ", ")));
}

}  // namespace

Options Options::from_environment() {
  Options options;
  std::vector<std::string> taken;
  for (const Row& row : kTable) {
    const char* value = nullptr;
    const char* name = set_by(row, value);
    if (!name) continue;
    try {
      row.parse(value, options);
    } catch (const Expected& expected) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}=\"{}\": expected {}", name, value, expected));
    }
    if (name != row.name) {
      taken.push_back(fmt::format("{}={} is taken as {}", name, value, row.name));
    }
  }
  // What is said here would otherwise be judged by the level that was in force before.
  if (options.log_level != Options().log_level) log_set_level(options.log_level);
  for (const std::string& text : taken) warn_once(LogLevel::info, text);
  warn_about_unknown();
  name_what_is_ignored();
  return options;
}

std::string cache_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/ringwood";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/ringwood" : "";
}

std::vector<Knob> describe(const Options& options) {
  std::vector<Knob> knobs;
  for (const Row& row : kTable) {
    const char* value = nullptr;
    bool from_environment = set_by(row, value) != nullptr;
    std::string description = row.description;
    for (const char* alias : row.aliases)
      if (alias) description += fmt::format(" [{}]", alias);
    knobs.push_back({row.name, row.show(options), row.show(Options{}), std::move(description),
                     from_environment});
  }
  return knobs;
}

}  // namespace ringwood

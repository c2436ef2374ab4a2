#include "collectives/tuner/machine/machine_model.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "collectives/tuner/machine/model_text.h"
#include "collectives/tuner/machine/places.h"
#include "transports/base/options.h"

namespace ringwood {
namespace {

constexpr std::string_view kVersion = "ringwood-machine-12";
constexpr size_t kMaxBytes = 256 << 10;
constexpr int kMaxCores = 1 << 15;
constexpr int kMaxRails = 64;
constexpr size_t kMaxName = 64;

// Times may be 0 (a perfect machine, in theory and tests); rates and sizes are at least 1.
struct Key {
  const char* name;
  double& (*parameter)(MachineModel& machine);
  double least, most;
};
constexpr double kMaxSeconds = 10, kMaxParameter = 1e18;
constexpr Key kKeys[] = {
    {"l2_bytes", [](MachineModel& f) -> double& { return f.l2_bytes; }, 1, kMaxParameter},
    {"l3_bytes", [](MachineModel& f) -> double& { return f.l3_bytes; }, 1, kMaxParameter},
    {"copy_l2", [](MachineModel& f) -> double& { return f.copy.l2; }, 1, kMaxParameter},
    {"copy_l3", [](MachineModel& f) -> double& { return f.copy.l3; }, 1, kMaxParameter},
    {"copy_dram", [](MachineModel& f) -> double& { return f.copy.dram; }, 1, kMaxParameter},
    {"reduce_l2", [](MachineModel& f) -> double& { return f.reduce.l2; }, 1, kMaxParameter},
    {"reduce_l3", [](MachineModel& f) -> double& { return f.reduce.l3; }, 1, kMaxParameter},
    {"reduce_dram", [](MachineModel& f) -> double& { return f.reduce.dram; }, 1, kMaxParameter},
    {"bf16_encode", [](MachineModel& f) -> double& { return f.bf16.encode; }, 1, kMaxParameter},
    {"bf16_decode", [](MachineModel& f) -> double& { return f.bf16.decode; }, 1, kMaxParameter},
    {"int8_encode", [](MachineModel& f) -> double& { return f.int8.encode; }, 1, kMaxParameter},
    {"int8_decode", [](MachineModel& f) -> double& { return f.int8.decode; }, 1, kMaxParameter},
    {"memory", [](MachineModel& f) -> double& { return f.memory; }, 1, kMaxParameter},
    {"call", [](MachineModel& f) -> double& { return f.call; }, 0, kMaxSeconds},
    {"post", [](MachineModel& f) -> double& { return f.post; }, 0, kMaxSeconds},
    {"look", [](MachineModel& f) -> double& { return f.look; }, 0, kMaxSeconds},
    {"latency", [](MachineModel& f) -> double& { return f.latency; }, 0, kMaxSeconds},
    {"handed", [](MachineModel& f) -> double& { return f.handed; }, 1, kMaxParameter},
    {"both_ways", [](MachineModel& f) -> double& { return f.both_ways; }, 1e-3, 1},
    {"exchanged_small", [](MachineModel& f) -> double& { return f.exchanged.small; }, 1,
     kMaxParameter},
    {"exchanged_l2", [](MachineModel& f) -> double& { return f.exchanged.l2; }, 1, kMaxParameter},
    {"exchanged_l3", [](MachineModel& f) -> double& { return f.exchanged.l3; }, 1, kMaxParameter},
    {"yield", [](MachineModel& f) -> double& { return f.yield; }, 0, kMaxSeconds},
    {"piece", [](MachineModel& f) -> double& { return f.piece; }, 1, kMaxParameter},
    {"eager", [](MachineModel& f) -> double& { return f.eager; }, 0, kMaxParameter},
    {"zero_copy", [](MachineModel& f) -> double& { return f.zero_copy; }, 0, kMaxParameter},
    {"node_latency", [](MachineModel& f) -> double& { return f.node_latency; }, 0, kMaxSeconds},
    {"node_handed", [](MachineModel& f) -> double& { return f.node_handed; }, 1, kMaxParameter},
    {"device_rate", [](MachineModel& f) -> double& { return f.device.rate; }, 0, kMaxParameter},
    {"device_latency", [](MachineModel& f) -> double& { return f.device.latency; }, 0, kMaxSeconds},
    {"net_latency", [](MachineModel& f) -> double& { return f.net.latency; }, 0, kMaxSeconds},
    {"net_post", [](MachineModel& f) -> double& { return f.net.post; }, 0, kMaxSeconds},
    {"net_behind", [](MachineModel& f) -> double& { return f.net.behind; }, 0, 1},
    {"net_copied", [](MachineModel& f) -> double& { return f.net.copied; }, 1, kMaxParameter},
    {"nic", [](MachineModel& f) -> double& { return f.net.nic; }, 1, kMaxParameter},
    {"net_both_ways", [](MachineModel& f) -> double& { return f.net.both_ways; }, 1e-3, 1},
    {"net_eager", [](MachineModel& f) -> double& { return f.net.eager; }, 0, kMaxParameter},
    {"net_zero_copy", [](MachineModel& f) -> double& { return f.net.zero_copy; }, 0, kMaxParameter},
    {"net_piece", [](MachineModel& f) -> double& { return f.net.piece; }, 1, kMaxParameter},
    {"net_gap", [](MachineModel& f) -> double& { return f.net.gap; }, 0, kMaxSeconds},
    {"net_burst", [](MachineModel& f) -> double& { return f.net.burst; }, 0, kMaxParameter},
};

struct LimitKey {
  const char* name;
  size_t& (*limit)(ProtocolLimits& limits);
};
constexpr size_t kMaxLimit = size_t{1} << 40;
constexpr LimitKey kLimits[] = {
    {"one_round_bytes", [](ProtocolLimits& l) -> size_t& { return l.one_round_bytes; }},
    {"one_round_copied_apart",
     [](ProtocolLimits& l) -> size_t& { return l.one_round_copied_apart; }},
    {"one_round_added_apart", [](ProtocolLimits& l) -> size_t& { return l.one_round_added_apart; }},
    {"one_round_ranks", [](ProtocolLimits& l) -> size_t& { return l.one_round_ranks; }},
    {"fused_bytes", [](ProtocolLimits& l) -> size_t& { return l.fused_bytes; }},
    {"least_encoded", [](ProtocolLimits& l) -> size_t& { return l.min_encoded; }},
    {"published_from", [](ProtocolLimits& l) -> size_t& { return l.published_from; }},
    {"bundled", [](ProtocolLimits& l) -> size_t& { return l.bundled; }},
    {"bundled_in_memory", [](ProtocolLimits& l) -> size_t& { return l.bundled_in_memory; }},
    {"bundled_bytes_in_memory",
     [](ProtocolLimits& l) -> size_t& { return l.bundled_bytes_in_memory; }},
    {"packed", [](ProtocolLimits& l) -> size_t& { return l.packed; }},
    {"published_up_to", [](ProtocolLimits& l) -> size_t& { return l.published_up_to; }},
};

PathClass parse_carrier(std::string_view text) {
  for (const PathClass carrier : {PathClass::socket, PathClass::rdma})
    if (text == to_string(carrier)) return carrier;
  refuse_model(fmt::format("carrier={} is neither socket nor rdma", text.substr(0, 40)));
}

std::string print_far(const std::optional<PathParameters>& far) {
  return far ? fmt::format("{},{},{}", far->latency, far->rate, far->both_ways) : "";
}

std::optional<PathParameters> parse_far(std::string_view text) {
  if (text.empty()) return {};
  PathParameters far;
  far.latency = model_number("far", cut_text(text, ','), 0.0, kMaxSeconds);
  far.rate = model_number("far", cut_text(text, ','), 1.0, kMaxParameter);
  far.both_ways = model_number("far", text, 1e-3, 1.0);
  return far;
}

std::string print_exceptions(const std::vector<HostException>& exceptions) {
  std::string text;
  for (const HostException& one : exceptions)
    text += fmt::format("{}{}{}:{}:{}", text.empty() ? "" : ",", one.host,
                        one.rail < 0 ? "" : fmt::format("/{}", one.rail), one.rate, one.name);
  return text;
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

bool before(const HostException& a, const HostException& b) {
  return std::pair(a.host, a.rail) < std::pair(b.host, b.rail);
}

std::vector<HostException> parse_exceptions(std::string_view text) {
  std::vector<HostException> exceptions;
  while (!text.empty()) {
    std::string_view item = cut_text(text, ',');
    if (exceptions.size() == kMaxExceptions)
      refuse_model(fmt::format("more than {} exceptions", kMaxExceptions));
    HostException one;
    std::string_view place = cut_text(item, ':');
    one.host = model_number("exceptions", cut_text(place, '/'), 0, kMaxPlaces);
    if (!place.empty()) one.rail = model_number("exceptions", place, 0, kMaxRails - 1);
    if (!exceptions.empty() && !before(exceptions.back(), one))
      refuse_model(fmt::format("exceptions={} is not after {}", one.host, exceptions.back().host));
    one.rate = model_number("exceptions", cut_text(item, ':'), 1e-6, 1.0);
    one.name = item;
    if (one.name.size() > kMaxName || !std::ranges::all_of(one.name, in_name))
      refuse_model(fmt::format("{} is not the name of a host", one.name.substr(0, 40)));
    exceptions.push_back(std::move(one));
  }
  return exceptions;
}

}  // namespace

const char* to_string(PathClass path) {
  switch (path) {
    case PathClass::memory: return "memory";
    case PathClass::device: return "device";
    case PathClass::socket: return "socket";
    case PathClass::rdma: return "rdma";
  }
  return "";
}

void use_rdma_prior(MachineModel& machine) {
  // perftest's ib_write_lat of 2 bytes takes 1 to 2 us on cards of 100 to 400 Gbit/s, one way, of
  // which the cores at both ends have some 0.2 us each; a ring is memory.
  machine.net.carrier = PathClass::rdma;
  machine.net.latency = 1.2e-6;
  machine.net.post = 0.3e-6;
  machine.net.copied = machine.copy.l3;
  const VerbsOptions usual;
  machine.net.eager = static_cast<double>(usual.ring_bytes);
  machine.net.zero_copy = static_cast<double>(usual.zero_copy_bytes);
  machine.net.piece = static_cast<double>(verbs_piece_bytes(usual.ring_bytes));
}

int host_count(const MachineModel& machine) {
  const auto most = std::ranges::max_element(machine.hosts);
  return most == machine.hosts.end() ? 1 : *most + 1;
}

int sharing_sets(const MachineModel& machine, int hosts) {
  return (hosts + machine.net.sharing - 1) / machine.net.sharing;
}

double part_of_set(const MachineModel& machine, int hosts, int set) {
  const int there = std::min(machine.net.sharing, hosts - set * machine.net.sharing);
  return static_cast<double>(there) / machine.net.sharing;
}

MachineModel median_of(const std::vector<MachineModel>& machines) {
  MachineModel median = machines.front();
  std::vector<double> values(machines.size());
  for (const Key& key : kKeys) {
    std::ranges::transform(machines, values.begin(),
                           [&](MachineModel one) { return key.parameter(one); });
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    key.parameter(median) = *middle;
  }
  return median;
}

bool is_near(const NetworkParameters& net, int hosts, int a, int b) {
  const int apart = std::abs(a - b);
  const bool known = static_cast<int>(net.leaves.size()) > std::max(a, b);
  return known ? net.leaves[a] == net.leaves[b] : apart <= 1 || apart == hosts - 1;
}

PathParameters path(const MachineModel& machine, int hosts, int a, int b) {
  const NetworkParameters& net = machine.net;
  if (!net.far || is_near(net, hosts, a, b)) return {net.latency, net.nic, net.both_ways};
  return *net.far;
}

int port_count(const NetworkParameters& net) { return net.rail_of_rank ? net.rails : 1; }

double port_rate(const NetworkParameters& net, int host, int port) {
  if (net.rail_of_rank) return rail_rate(net, host, port);
  double rate = 0;
  for (int rail = 0; rail < net.rails; ++rail) rate += rail_rate(net, host, rail);
  return rate;
}

double rail_rate(const NetworkParameters& net, int host, int rail) {
  double part = 1;
  for (const HostException& one : net.exceptions)
    if (one.host == host && (one.rail < 0 || one.rail == rail)) part = std::min(part, one.rate);
  return part / net.rails;
}

int port_of(const NetworkParameters& net, int from, int from_index, int to, int to_index) {
  return (from < to ? from_index : to_index) % port_count(net);
}

std::string print(const HostException& one) {
  return one.rail < 0 ? one.name : fmt::format("{} rail {}", one.name, one.rail);
}

std::string print(const MachineModel& machine) {
  std::string text = fmt::format(
      "{} hosts={} nodes={} cores={} sharing={} staged={:d} loopback={:d} carrier={} rails={} "
      "rail_of_rank={:d} leaves={} far={} exceptions={}",
      kVersion, print_places(machine.hosts), print_places(machine.nodes), machine.cores,
      machine.net.sharing, machine.staged, machine.loopback, to_string(machine.net.carrier),
      machine.net.rails, machine.net.rail_of_rank, print_places(machine.net.leaves),
      print_far(machine.net.far), print_exceptions(machine.net.exceptions));
  MachineModel copy = machine;
  for (const Key& key : kKeys) text += fmt::format(" {}={}", key.name, key.parameter(copy));
  for (const LimitKey& key : kLimits)
    text += fmt::format(" {}={}", key.name, key.limit(copy.limits));
  return text;
}

MachineModel parse_machine_model(std::string_view text) {
  const std::string_view whole = text;
  if (text.size() > kMaxBytes) refuse_model(fmt::format("longer than {} bytes", kMaxBytes));
  if (cut_text(text, ' ') != kVersion)
    refuse_model(fmt::format("does not begin with {}: write it anew with ringwood explain --save",
                             kVersion));
  MachineModel machine;
  const auto value_of = [&](std::string_view name) {
    std::string_view item = cut_text(text, ' ');
    if (cut_text(item, '=') != name)
      refuse_model(fmt::format("{}= is missing or not in its place", name));
    return item;
  };
  machine.hosts = parse_places("hosts", value_of("hosts"));
  machine.nodes = parse_places("nodes", value_of("nodes"));
  machine.cores = model_number("cores", value_of("cores"), 1, kMaxCores);
  machine.net.sharing = model_number("sharing", value_of("sharing"), 1, kMaxPlaces);
  machine.staged = model_number("staged", value_of("staged"), 0, 1) == 1;
  machine.loopback = model_number("loopback", value_of("loopback"), 0, 1) == 1;
  machine.net.carrier = parse_carrier(value_of("carrier"));
  machine.net.rails = model_number("rails", value_of("rails"), 1, kMaxRails);
  machine.net.rail_of_rank = model_number("rail_of_rank", value_of("rail_of_rank"), 0, 1) == 1;
  machine.net.leaves = parse_places("leaves", value_of("leaves"));
  machine.net.far = parse_far(value_of("far"));
  machine.net.exceptions = parse_exceptions(value_of("exceptions"));
  for (const Key& key : kKeys)
    key.parameter(machine) = model_number(key.name, value_of(key.name), key.least, key.most);
  for (const LimitKey& key : kLimits)
    key.limit(machine.limits) = model_number<size_t>(key.name, value_of(key.name), 0, kMaxLimit);
  // Any other difference (a space, an extra zero) would be another text for the same parameters.
  if (print(machine) != whole) refuse_model("is not in the form in which it is printed");
  return machine;
}

}  // namespace ringwood

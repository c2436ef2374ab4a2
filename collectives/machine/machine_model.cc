#include "collectives/machine/machine_model.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr std::string_view kVersion = "ringwood-machine-5";
constexpr size_t kMaxBytes = 256 << 10;
constexpr int kMaxRanks = 1 << 15;
constexpr int kMaxCores = 1 << 15;

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
    {"net_latency", [](MachineModel& f) -> double& { return f.net.latency; }, 0, kMaxSeconds},
    {"net_post", [](MachineModel& f) -> double& { return f.net.post; }, 0, kMaxSeconds},
    {"socket", [](MachineModel& f) -> double& { return f.net.socket; }, 1, kMaxParameter},
    {"nic", [](MachineModel& f) -> double& { return f.net.nic; }, 1, kMaxParameter},
    {"net_eager", [](MachineModel& f) -> double& { return f.net.eager; }, 0, kMaxParameter},
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
    {"least_encoded", [](ProtocolLimits& l) -> size_t& { return l.least_encoded; }},
    {"published_from", [](ProtocolLimits& l) -> size_t& { return l.published_from; }},
    {"packed", [](ProtocolLimits& l) -> size_t& { return l.packed; }},
    {"published_up_to", [](ProtocolLimits& l) -> size_t& { return l.published_up_to; }},
};

[[noreturn]] void refuse(std::string why) {
  throw Error(ErrorCode::invalid_argument, "machine: " + std::move(why));
}

template <class T>
T number(std::string_view key, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Written so that a NaN fails.
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    refuse(
        fmt::format("{}={} is not a number from {} to {}", key, text.substr(0, 40), least, most));
  return value;
}

std::string_view cut(std::string_view& text, char at) {
  const size_t end = std::min(text.find(at), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::vector<int> parse_places(std::string_view key, std::string_view text) {
  std::vector<int> places;
  int known = 0;  // in the order of first ranks, so that equal groups print equally
  while (!text.empty()) {
    if (places.size() == kMaxRanks) refuse(fmt::format("more than {} ranks", kMaxRanks));
    places.push_back(number(key, cut(text, ','), 0, known));
    known = std::max(known, places.back() + 1);
  }
  return places;
}

}  // namespace

std::string print(const MachineModel& machine) {
  std::string text =
      fmt::format("{} hosts={} nodes={} cores={} staged={:d} loopback={:d}", kVersion,
                  fmt::join(machine.hosts, ","), fmt::join(machine.nodes, ","), machine.cores,
                  machine.staged, machine.loopback);
  MachineModel copy = machine;
  for (const Key& key : kKeys) text += fmt::format(" {}={}", key.name, key.parameter(copy));
  for (const LimitKey& key : kLimits)
    text += fmt::format(" {}={}", key.name, key.limit(copy.limits));
  return text;
}

MachineModel parse_machine_model(std::string_view text) {
  const std::string_view whole = text;
  if (text.size() > kMaxBytes) refuse(fmt::format("longer than {} bytes", kMaxBytes));
  if (cut(text, ' ') != kVersion) refuse(fmt::format("does not begin with {}", kVersion));
  MachineModel machine;
  const auto value_of = [&](std::string_view name) {
    std::string_view item = cut(text, ' ');
    if (cut(item, '=') != name) refuse(fmt::format("{}= is missing or not in its place", name));
    return item;
  };
  machine.hosts = parse_places("hosts", value_of("hosts"));
  machine.nodes = parse_places("nodes", value_of("nodes"));
  machine.cores = number("cores", value_of("cores"), 1, kMaxCores);
  machine.staged = number("staged", value_of("staged"), 0, 1) == 1;
  machine.loopback = number("loopback", value_of("loopback"), 0, 1) == 1;
  for (const Key& key : kKeys)
    key.parameter(machine) = number(key.name, value_of(key.name), key.least, key.most);
  for (const LimitKey& key : kLimits)
    key.limit(machine.limits) = number<size_t>(key.name, value_of(key.name), 0, kMaxLimit);
  // Any other difference (a space, an extra zero) would be another text for the same parameters.
  if (print(machine) != whole) refuse("is not in the form in which it is printed");
  return machine;
}

}  // namespace ringwood

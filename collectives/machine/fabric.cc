#include "collectives/machine/fabric.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/base/error.h"

namespace ringwood {
namespace {

constexpr std::string_view kVersion = "ringwood-fabric-5";
constexpr size_t kMostBytes = 256 << 10;
constexpr int kMostRanks = 1 << 15;
constexpr int kMostCores = 1 << 15;

// Times may be 0 (a perfect machine, in theory and tests); a rate, as a size, is at least 1.
struct Key {
  const char* name;
  double& (*figure)(Fabric& fabric);
  double least, most;
};
constexpr double kMostSeconds = 10, kMostFigure = 1e18;
constexpr Key kKeys[] = {
    {"l2_bytes", [](Fabric& f) -> double& { return f.l2_bytes; }, 1, kMostFigure},
    {"l3_bytes", [](Fabric& f) -> double& { return f.l3_bytes; }, 1, kMostFigure},
    {"copy_l2", [](Fabric& f) -> double& { return f.copy.l2; }, 1, kMostFigure},
    {"copy_l3", [](Fabric& f) -> double& { return f.copy.l3; }, 1, kMostFigure},
    {"copy_dram", [](Fabric& f) -> double& { return f.copy.dram; }, 1, kMostFigure},
    {"reduce_l2", [](Fabric& f) -> double& { return f.reduce.l2; }, 1, kMostFigure},
    {"reduce_l3", [](Fabric& f) -> double& { return f.reduce.l3; }, 1, kMostFigure},
    {"reduce_dram", [](Fabric& f) -> double& { return f.reduce.dram; }, 1, kMostFigure},
    {"bf16_encode", [](Fabric& f) -> double& { return f.bf16.encode; }, 1, kMostFigure},
    {"bf16_decode", [](Fabric& f) -> double& { return f.bf16.decode; }, 1, kMostFigure},
    {"int8_encode", [](Fabric& f) -> double& { return f.int8.encode; }, 1, kMostFigure},
    {"int8_decode", [](Fabric& f) -> double& { return f.int8.decode; }, 1, kMostFigure},
    {"memory", [](Fabric& f) -> double& { return f.memory; }, 1, kMostFigure},
    {"call", [](Fabric& f) -> double& { return f.call; }, 0, kMostSeconds},
    {"post", [](Fabric& f) -> double& { return f.post; }, 0, kMostSeconds},
    {"look", [](Fabric& f) -> double& { return f.look; }, 0, kMostSeconds},
    {"latency", [](Fabric& f) -> double& { return f.latency; }, 0, kMostSeconds},
    {"handed", [](Fabric& f) -> double& { return f.handed; }, 1, kMostFigure},
    {"both_ways", [](Fabric& f) -> double& { return f.both_ways; }, 1e-3, 1},
    {"exchanged_small", [](Fabric& f) -> double& { return f.exchanged.small; }, 1, kMostFigure},
    {"exchanged_l2", [](Fabric& f) -> double& { return f.exchanged.l2; }, 1, kMostFigure},
    {"exchanged_l3", [](Fabric& f) -> double& { return f.exchanged.l3; }, 1, kMostFigure},
    {"yield", [](Fabric& f) -> double& { return f.yield; }, 0, kMostSeconds},
    {"piece", [](Fabric& f) -> double& { return f.piece; }, 1, kMostFigure},
    {"eager", [](Fabric& f) -> double& { return f.eager; }, 0, kMostFigure},
    {"lent", [](Fabric& f) -> double& { return f.lent; }, 0, kMostFigure},
    {"node_latency", [](Fabric& f) -> double& { return f.node_latency; }, 0, kMostSeconds},
    {"node_handed", [](Fabric& f) -> double& { return f.node_handed; }, 1, kMostFigure},
    {"net_latency", [](Fabric& f) -> double& { return f.net.latency; }, 0, kMostSeconds},
    {"net_post", [](Fabric& f) -> double& { return f.net.post; }, 0, kMostSeconds},
    {"socket", [](Fabric& f) -> double& { return f.net.socket; }, 1, kMostFigure},
    {"nic", [](Fabric& f) -> double& { return f.net.nic; }, 1, kMostFigure},
    {"net_eager", [](Fabric& f) -> double& { return f.net.eager; }, 0, kMostFigure},
};

struct LimitKey {
  const char* name;
  size_t& (*limit)(ProtocolLimits& limits);
};
constexpr size_t kMostLimit = size_t{1} << 40;
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
  throw Error(ErrorCode::invalid_argument, "fabric: " + std::move(why));
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
  int known = 0;  // numbered in the order of their first ranks, so that equal groups print equally
  while (!text.empty()) {
    if (places.size() == kMostRanks) refuse(fmt::format("more than {} ranks", kMostRanks));
    places.push_back(number(key, cut(text, ','), 0, known));
    known = std::max(known, places.back() + 1);
  }
  return places;
}

}  // namespace

std::string print(const Fabric& fabric) {
  std::string text =
      fmt::format("{} hosts={} nodes={} cores={} staged={:d} loopback={:d}", kVersion,
                  fmt::join(fabric.hosts, ","), fmt::join(fabric.nodes, ","), fabric.cores,
                  fabric.staged, fabric.loopback);
  Fabric copy = fabric;
  for (const Key& key : kKeys) text += fmt::format(" {}={}", key.name, key.figure(copy));
  for (const LimitKey& key : kLimits)
    text += fmt::format(" {}={}", key.name, key.limit(copy.limits));
  return text;
}

Fabric parse_fabric(std::string_view text) {
  const std::string_view whole = text;
  if (text.size() > kMostBytes) refuse(fmt::format("longer than {} bytes", kMostBytes));
  if (cut(text, ' ') != kVersion) refuse(fmt::format("does not begin with {}", kVersion));
  Fabric fabric;
  const auto value_of = [&](std::string_view name) {
    std::string_view item = cut(text, ' ');
    if (cut(item, '=') != name) refuse(fmt::format("{}= is missing or not in its place", name));
    return item;
  };
  fabric.hosts = parse_places("hosts", value_of("hosts"));
  fabric.nodes = parse_places("nodes", value_of("nodes"));
  fabric.cores = number("cores", value_of("cores"), 1, kMostCores);
  fabric.staged = number("staged", value_of("staged"), 0, 1) == 1;
  fabric.loopback = number("loopback", value_of("loopback"), 0, 1) == 1;
  for (const Key& key : kKeys)
    key.figure(fabric) = number(key.name, value_of(key.name), key.least, key.most);
  for (const LimitKey& key : kLimits)
    key.limit(fabric.limits) = number<size_t>(key.name, value_of(key.name), 0, kMostLimit);
  // Whatever else differs (a space, a zero too much) would be another text for the same figures.
  if (print(fabric) != whole) refuse("is not in the form in which it is printed");
  return fabric;
}

}  // namespace ringwood

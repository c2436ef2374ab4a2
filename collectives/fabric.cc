#include "collectives/fabric.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "transports/error.h"

namespace ringwood {
namespace {

constexpr std::string_view kVersion = "ringwood-fabric-2";
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
    {"memory", [](Fabric& f) -> double& { return f.memory; }, 1, kMostFigure},
    {"call", [](Fabric& f) -> double& { return f.call; }, 0, kMostSeconds},
    {"post", [](Fabric& f) -> double& { return f.post; }, 0, kMostSeconds},
    {"look", [](Fabric& f) -> double& { return f.look; }, 0, kMostSeconds},
    {"latency", [](Fabric& f) -> double& { return f.latency; }, 0, kMostSeconds},
    {"handed", [](Fabric& f) -> double& { return f.handed; }, 1, kMostFigure},
    {"yield", [](Fabric& f) -> double& { return f.yield; }, 0, kMostSeconds},
    {"piece", [](Fabric& f) -> double& { return f.piece; }, 1, kMostFigure},
    {"eager", [](Fabric& f) -> double& { return f.eager; }, 0, kMostFigure},
    {"net_latency", [](Fabric& f) -> double& { return f.net_latency; }, 0, kMostSeconds},
    {"net_post", [](Fabric& f) -> double& { return f.net_post; }, 0, kMostSeconds},
    {"socket", [](Fabric& f) -> double& { return f.socket; }, 1, kMostFigure},
    {"nic", [](Fabric& f) -> double& { return f.nic; }, 1, kMostFigure},
    {"net_eager", [](Fabric& f) -> double& { return f.net_eager; }, 0, kMostFigure},
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

std::vector<int> parse_hosts(std::string_view text) {
  std::vector<int> hosts;
  int known = 0;  // numbered in the order of their first ranks, so that equal groups print equally
  while (!text.empty()) {
    if (hosts.size() == kMostRanks) refuse(fmt::format("more than {} ranks", kMostRanks));
    hosts.push_back(number("hosts", cut(text, ','), 0, known));
    known = std::max(known, hosts.back() + 1);
  }
  return hosts;
}

}  // namespace

std::string print(const Fabric& fabric) {
  std::string text =
      fmt::format("{} hosts={} cores={} staged={:d} wired={:d}", kVersion,
                  fmt::join(fabric.hosts, ","), fabric.cores, fabric.staged, fabric.wired);
  Fabric copy = fabric;
  for (const Key& key : kKeys) text += fmt::format(" {}={}", key.name, key.figure(copy));
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
  fabric.hosts = parse_hosts(value_of("hosts"));
  fabric.cores = number("cores", value_of("cores"), 1, kMostCores);
  fabric.staged = number("staged", value_of("staged"), 0, 1) == 1;
  fabric.wired = number("wired", value_of("wired"), 0, 1) == 1;
  for (const Key& key : kKeys)
    key.figure(fabric) = number(key.name, value_of(key.name), key.least, key.most);
  // Whatever else differs (a space, a zero too much) would be another text for the same figures.
  if (print(fabric) != whole) refuse("is not in the form in which it is printed");
  return fabric;
}

}  // namespace ringwood

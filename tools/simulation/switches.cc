#include "tools/simulation/switches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "tools/counted.h"
#include "tools/simulation/network.h"
#include "transports/base/error.h"

namespace ringwood {
namespace {

// What switches do with a flow's addresses: the finalizer of MurmurHash3.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

// Apart for each queue pair and tier, as a switch's hash has its own seed; the odd integer next to
// 2^64 divided by the golden ratio.
constexpr uint64_t kApart = 0x9e3779b97f4a7c15u;

const char* word(UplinkTier tier) { return tier == UplinkTier::leaf ? "leaf" : "pod"; }
std::string parts_of(UplinkTier tier, int number) {
  return tier == UplinkTier::leaf ? counted(number, "leaf", "leaves") : counted(number, "pod");
}

// Of a tier, up and down.
constexpr int64_t kMaxUplinks = 4'000'000;

}  // namespace

int hosts_below(const NetworkShape& shape, UplinkTier tier) {
  return std::max(1, shape.leaf) * (tier == UplinkTier::pod ? std::max(1, shape.pod) : 1);
}
int hosts_of_unit(const NetworkShape& shape) { return hosts_below(shape, UplinkTier::pod); }

Switches::Switches(const NetworkShape& shape, int hosts, const std::vector<UplinkFault>& dead,
                   int first)
    : rails_(shape.rails), first_(first), adaptive_(shape.adaptive) {
  if (shape.uplinks > 0 && shape.leaf <= 0)
    refuse("uplinks need leaf switches: say with --leaf how many hosts each has");
  if (shape.pod > 0 && shape.uplinks <= 0)
    refuse("pods need leaf switches: say with --leaf how many hosts each has");
  if (shape.uplinks > 0) add_tier(UplinkTier::leaf, shape.leaf, shape.uplinks, hosts);
  if (shape.pod > 0) add_tier(UplinkTier::pod, hosts_of_unit(shape), shape.pod_uplinks, hosts);
  for (int rail = 0; rail < rails_; ++rail)
    salt_.push_back(mix(shape.seed * Network::kMaxRails + static_cast<uint64_t>(rail)));
  for (const UplinkFault& fault : dead) kill(fault);
  for (const Tier& tier : tiers_) require_ways(tier);
  for (const Tier& tier : tiers_)
    if (adaptive_) join(tier);
}

void Switches::add_tier(UplinkTier name, int hosts, int uplinks, int all_hosts) {
  const int parts = (all_hosts + hosts - 1) / hosts, first = static_cast<int>(rates_.size());
  const int64_t links = int64_t{2} * parts * rails_ * uplinks;
  if (links > kMaxUplinks)
    refuse(fmt::format("{} of {} on {} are more than the {} million that are simulated",
                       counted(uplinks, "uplink"), parts_of(name, parts), counted(rails_, "rail"),
                       kMaxUplinks / 2'000'000));
  tiers_.push_back({name, hosts, uplinks, parts, first, std::vector<char>(parts, false)});
  rates_.resize(rates_.size() + static_cast<size_t>(links), 1.0 / rails_);
}

void Switches::kill(const UplinkFault& fault) {
  const auto tier = std::ranges::find(tiers_, fault.tier, &Tier::name);
  const char* const name = word(fault.tier);
  const bool leaf = fault.tier == UplinkTier::leaf;
  if (tier == tiers_.end())
    refuse(fmt::format("there is no {0}{1}: say with --{0} how many {2} each has", name, fault.part,
                       leaf ? "hosts" : "leaves"));
  if (fault.part >= tier->parts || fault.rail >= rails_ || fault.last >= tier->uplinks)
    refuse(
        fmt::format("there is no {0}{1}/rail{2}/{3} among {4}, {5}, and {6} of a {0} on each "
                    "(--{0}, --rails, --{7}uplinks)",
                    name, fault.part, fault.rail, fault.last, parts_of(fault.tier, tier->parts),
                    counted(rails_, "rail"), counted(tier->uplinks, "uplink"), leaf ? "" : "pod-"));
  for (int u = fault.first; u <= fault.last; ++u)
    for (const bool down : {false, true}) rates_[link(*tier, fault.part, fault.rail, u, down)] = 0;
  tier->lame[fault.part] = true;
}

// Between every two parts; those without faults need not be looked at.
void Switches::require_ways(const Tier& tier) const {
  for (int a = 0; a < tier.parts; ++a)
    for (int b = 0; b < tier.parts; ++b)
      for (int rail = 0; rail < rails_ && a != b && tier.lame[a]; ++rail) {
        const Ends ends{a, b, meet(tier, a * tier.hosts, b * tier.hosts)};
        if (alive(tier, ends, rail, false).empty() || alive(tier, ends, rail, true).empty())
          refuse(fmt::format("no uplink of rail{} is alive at both {}{} and {}{}: leave them one",
                             rail, word(tier.name), a, word(tier.name), b));
      }
}

bool Switches::meet(const Tier& tier, int host, int other) const {
  const auto above = static_cast<size_t>(&tier - tiers_.data()) + 1;
  return above == tiers_.size() || host / tiers_[above].hosts == other / tiers_[above].hosts;
}

std::vector<int> Switches::alive(const Tier& tier, const Ends& ends, int rail, bool down) const {
  std::vector<int> found;
  for (int u = 0; u < tier.uplinks; ++u) {
    const bool up = rates_[link(tier, ends.from, rail, u, false)] > 0,
               there = rates_[link(tier, ends.to, rail, u, true)] > 0;
    if (ends.meet ? up && there : down ? there : up) found.push_back(u);
  }
  return found;
}

// The first one stands for all.
void Switches::join(const Tier& tier) {
  for (int part = 0; part < tier.parts; ++part)
    for (int rail = 0; rail < rails_; ++rail)
      for (const bool down : {false, true}) {
        const int first = link(tier, part, rail, 0, down);
        for (int u = 1; u < tier.uplinks; ++u) rates_[first] += std::exchange(rates_[first + u], 0);
      }
}

void Switches::add_links(const Flow& flow, NetworkPath& path) const {
  for (const Tier& tier : tiers_) {
    const Ends ends{flow.from_host / tier.hosts, flow.to_host / tier.hosts,
                    meet(tier, flow.from_host, flow.to_host)};
    if (ends.from == ends.to) return;
    for (const bool down : {false, true})
      path.add(first_ + link(tier, down ? ends.to : ends.from, flow.rail,
                             pick(tier, ends, flow, down), down));
  }
}

int Switches::pick(const Tier& tier, const Ends& ends, const Flow& flow, bool down) const {
  if (adaptive_) return 0;
  const auto pair =
      uint64_t{static_cast<uint32_t>(flow.from)} << 32 | static_cast<uint32_t>(flow.to);
  const auto apart = static_cast<uint64_t>(flow.queue_pair) * tiers_.size() +
                     static_cast<uint64_t>(&tier - tiers_.data());
  const uint64_t hash = mix((pair ^ salt_[flow.rail]) + apart * kApart);
  const auto modulo = [&](size_t parts) {
    return std::has_single_bit(parts) ? hash & (parts - 1) : hash % parts;
  };
  if (!tier.lame[ends.from] && !tier.lame[ends.to])
    return static_cast<int>(modulo(static_cast<size_t>(tier.uplinks)));
  const std::vector<int> left = alive(tier, ends, flow.rail, down);
  return left[modulo(left.size())];
}

Switches::Place Switches::place(int32_t link) const {
  link -= first_;
  const Tier& tier = tiers_.size() > 1 && link >= tiers_[1].first ? tiers_[1] : tiers_[0];
  const int at = link - tier.first, plane = at / tier.uplinks, way = plane / rails_;
  return {&tier, way / 2, plane % rails_, at % tier.uplinks, way % 2 != 0};
}

std::string Switches::name(int32_t link) const {
  const Place at = place(link);
  const char* way = at.down ? "down" : "up";
  const std::string plane = fmt::format("{}{}/rail{}", word(at.tier->name), at.part, at.rail);
  return adaptive_ ? fmt::format("{} {}", plane, way)
                   : fmt::format("{}/{} {}", plane, at.index, way);
}

int32_t Switches::link_in(const Switches& other, int32_t link, int host_there) const {
  const Place at = place(link);
  const Tier& tier = other.tiers_[static_cast<size_t>(at.tier - tiers_.data())];
  return other.first_ + other.link(tier, host_there / tier.hosts, at.rail, at.index, at.down);
}

int Switches::first_host(int32_t link) const {
  const Place at = place(link);
  return at.part * at.tier->hosts;
}

}  // namespace ringwood

#include "tools/simulation/network.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "transports/base/error.h"
#include "transports/verbs/verbs.h"

namespace ringwood {
namespace {

// What switches do with a flow's addresses: the finalizer of MurmurHash3.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

}  // namespace

bool in_pieces(double bytes) { return bytes > verbs::kPieceBytes; }

PairLinks::PairLinks(const NetworkShape& shape, int hosts, const std::vector<PairFault>& faults,
                     int first)
    : hosts_(hosts), rails_(shape.rails), first_(first) {
  if (shape.pair <= 0 && faults.empty()) return;
  if (hosts > kMaxHosts)
    refuse(
        fmt::format("links between two hosts are simulated for at most {} hosts, and here are {}",
                    kMaxHosts, hosts));
  const double whole = (shape.pair > 0 ? shape.pair : 1) / shape.rails;
  links_.assign(static_cast<size_t>(hosts) * hosts * rails_, -1);
  const auto rate = [&](int from, int to, int rail) -> double& {
    int32_t& link = links_[index(from, to, rail)];
    if (link < 0) {
      link = first_ + static_cast<int32_t>(rates_.size());
      rates_.push_back(whole);
    }
    return rates_[link - first_];
  };
  for (int from = 0; shape.pair > 0 && from < hosts; ++from)
    for (int to = 0; to < hosts; ++to)
      for (int rail = 0; rail < rails_ && from != to; ++rail) rate(from, to, rail);
  for (const PairFault& fault : faults) {
    if (const int host = std::max(fault.from, fault.to); host >= hosts)
      refuse(fmt::format("there is no host{}: the last one is host{}", host, hosts - 1));
    if (fault.rail >= rails_)
      refuse(fmt::format("host{} has no rail{}: the last one is rail{} (--rails {})", fault.from,
                         fault.rail, rails_ - 1, rails_));
    for (int rail = 0; rail < rails_; ++rail)
      if (fault.rail < 0 || fault.rail == rail) rate(fault.from, fault.to, rail) *= fault.rate;
  }
}

PairLinks::Ends PairLinks::ends(int32_t link) const {
  const auto at = static_cast<int>(std::ranges::find(links_, link) - links_.begin());
  const int pair = at / rails_;
  return {pair / hosts_, pair % hosts_, at % rails_};
}

Network::Network(const MachineModel& machine, int ranks, const NetworkShape& shape,
                 const Faults& faults)
    : shape_(shape), ranks_(ranks) {
  if (shape.rails < 1 || shape.rails > kMaxRails)
    refuse(fmt::format("{} rails are not between 1 and {}", shape.rails, kMaxRails));
  if (shape.uplinks > 0 && shape.leaf <= 0)
    refuse("uplinks need leaf switches: say with --leaf how many hosts each has");
  for (int r = 0; r < ranks; ++r) {
    host_.push_back(machine.host_of(r));
    hosts_ = std::max(hosts_, host_[r] + 1);
  }
  std::vector<int> on_host(hosts_, 0);
  for (int r = 0; r < ranks; ++r) index_.push_back(on_host[host_[r]]++);
  leaves_ = shape.leaf > 0 ? (hosts_ + shape.leaf - 1) / shape.leaf : 0;
  first_uplink_ = 2 * hosts_ * shape.rails;
  first_island_ = first_uplink_ + 2 * leaves_ * shape.rails * shape.uplinks;
  rates_.assign(first_island_, 1.0 / shape.rails);
  rates_.resize(first_island_ + (machine.has_devices() ? 2 * ranks : 0), 1);
  lame_.assign(leaves_, false);
  for (int rail = 0; rail < shape.rails; ++rail)
    salt_.push_back(mix(shape.seed * kMaxRails + static_cast<uint64_t>(rail)));
  add_faults(faults);
  pairs_ = PairLinks(shape, hosts_, faults.links, links());
  rates_.insert(rates_.end(), pairs_.rates().begin(), pairs_.rates().end());
  require_ways();
  if (shape.adaptive) join_uplinks();
}

// The first one stands for all.
void Network::join_uplinks() {
  for (int leaf = 0; leaf < leaves_; ++leaf)
    for (int rail = 0; rail < shape_.rails; ++rail)
      for (const bool down : {false, true}) {
        const int first = uplink(leaf, rail, 0, down);
        for (int u = 1; u < shape_.uplinks; ++u)
          rates_[first] += std::exchange(rates_[first + u], 0);
      }
}

void Network::add_faults(const Faults& faults) {
  for (const PortFault& fault : faults.ports) {
    if (fault.host >= hosts_)
      refuse(fmt::format("there is no host{}: the last one is host{}", fault.host, hosts_ - 1));
    if (fault.rail >= shape_.rails)
      refuse(fmt::format("host{} has no rail{}: the last one is rail{} (--rails {})", fault.host,
                         fault.rail, shape_.rails - 1, shape_.rails));
    for (int rail = 0; rail < shape_.rails; ++rail)
      for (const bool in : {false, true})
        if ((fault.rail < 0 || fault.rail == rail) &&
            fault.way != (in ? PortWay::out : PortWay::in))
          rates_[port(fault.host, rail, in)] *= fault.rate;
  }
  for (const UplinkFault& fault : faults.uplinks) {
    if (fault.leaf >= leaves_ || fault.rail >= shape_.rails || fault.last >= shape_.uplinks)
      refuse(
          fmt::format("there is no leaf{}/rail{}/{}: there are {} leaves, {} rails, and {} "
                      "uplinks of a leaf on each (--leaf, --rails, --uplinks)",
                      fault.leaf, fault.rail, fault.last, leaves_, shape_.rails, shape_.uplinks));
    for (int u = fault.first; u <= fault.last; ++u)
      for (const bool down : {false, true}) rates_[uplink(fault.leaf, fault.rail, u, down)] = 0;
    lame_[fault.leaf] = true;
  }
}

// Between every two hosts; those without faults need not be looked at.
void Network::require_ways() const {
  std::vector<uint32_t> alive(hosts_);
  std::vector<int> broken;
  for (int h = 0; h < hosts_; ++h) {
    for (int rail = 0; rail < shape_.rails; ++rail)
      alive[h] |= uint32_t{rates_[port(h, rail, false)] > 0} << rail;
    if (alive[h] != (uint32_t{1} << shape_.rails) - 1) broken.push_back(h);
    if (alive[h] == 0) refuse(fmt::format("host{} has no rail left: leave it one", h));
  }
  for (const int a : broken)
    for (const int b : broken)
      if ((alive[a] & alive[b]) == 0)
        refuse(fmt::format("no rail is alive at both host{} and host{}: leave them one", a, b));
  if (shape_.uplinks == 0) return;
  for (int a = 0; a < leaves_; ++a)
    for (int b = 0; b < leaves_; ++b)
      for (int rail = 0; rail < shape_.rails && a != b && lame_[a]; ++rail) {
        bool way = false;
        for (int u = 0; u < shape_.uplinks; ++u)
          way |= rates_[uplink(a, rail, u, false)] > 0 && rates_[uplink(b, rail, u, true)] > 0;
        if (!way)
          refuse(
              fmt::format("no uplink of rail{} is alive at both leaf{} and leaf{}: leave them "
                          "one",
                          rail, a, b));
      }
}

Limit Network::kind(int32_t link) const {
  if (pairs_.has(link)) return Limit::pair;
  if (link >= first_island_) return Limit::island;
  if (link >= first_uplink_) return Limit::uplink;
  return link / shape_.rails % 2 == 0 ? Limit::port_out : Limit::port_in;
}

std::string Network::name(int32_t link) const {
  if (pairs_.has(link)) {
    const PairLinks::Ends ends = pairs_.ends(link);
    return fmt::format("host{} -> host{}, rail{}", ends.from, ends.to, ends.rail);
  }
  if (link >= first_island_)
    return fmt::format("rank{} island {}", (link - first_island_) / 2,
                       (link - first_island_) % 2 ? "in" : "out");
  const bool is_port = link < first_uplink_;
  const int index = is_port ? link : (link - first_uplink_) / shape_.uplinks;
  const int rail = index % shape_.rails, where = index / shape_.rails;
  if (is_port) return fmt::format("host{}/rail{} {}", where / 2, rail, where % 2 ? "in" : "out");
  const char* way = where % 2 ? "down" : "up";
  if (shape_.adaptive) return fmt::format("leaf{}/rail{} {}", where / 2, rail, way);
  return fmt::format("leaf{}/rail{}/{} {}", where / 2, rail,
                     (link - first_uplink_) % shape_.uplinks, way);
}

int32_t Network::link_in(const Network& other, int32_t link, const Numbers& numbers) const {
  if (pairs_.has(link)) {
    const PairLinks::Ends ends = pairs_.ends(link);
    return other.pairs_.find(numbers.host(ends.from), numbers.host(ends.to), ends.rail);
  }
  if (link >= first_island_) {
    const int index = link - first_island_;
    return other.first_island_ + 2 * numbers.rank(index / 2) + index % 2;
  }
  const bool is_port = link < first_uplink_;
  const int index = is_port ? link : (link - first_uplink_) / shape_.uplinks;
  const int rail = index % shape_.rails, where = index / shape_.rails;
  if (is_port) return other.port(numbers.host(where / 2), rail, where % 2 != 0);
  return other.uplink(numbers.leaf(where / 2), rail, (link - first_uplink_) % shape_.uplinks,
                      where % 2 != 0);
}

std::array<int32_t, 2> Network::island_path(int from, int to) const {
  return {first_island_ + 2 * from, first_island_ + 2 * to + 1};
}

void Network::paths(int from, int to, std::vector<Path>& paths) const {
  const int owner = std::min(from, to);
  paths.clear();
  const int a = host_[from], b = host_[to];
  const auto alive = [&](int rail) {
    return rates_[port(a, rail, false)] > 0 && rates_[port(b, rail, true)] > 0;
  };
  for (int i = 0; i < shape_.rails; ++i) {
    const int rail = shape_.use == RailUse::striped ? i : (index_[owner] + i) % shape_.rails;
    if (!alive(rail)) continue;
    paths.push_back(path(from, to, rail));
    if (shape_.use == RailUse::by_rank) return;
  }
}

Network::Path Network::path(int from, int to, int rail) const {
  const int a = host_[from], b = host_[to];
  Path path{{port(a, rail, false), port(b, rail, true), 0, 0, 0}, 2, rail};
  const auto add = [&](int32_t link) { path.links[path.count++] = link; };
  if (const int32_t own = pairs_.find(a, b, rail); own >= 0) add(own);
  if (shape_.uplinks == 0 || a / shape_.leaf == b / shape_.leaf) return path;
  const int u = pick_uplink(from, to, rail);
  add(uplink(a / shape_.leaf, rail, u, false));
  add(uplink(b / shape_.leaf, rail, u, true));
  return path;
}

int Network::pick_uplink(int from, int to, int rail) const {
  if (shape_.adaptive) return 0;
  const int a = host_[from] / shape_.leaf, b = host_[to] / shape_.leaf;
  const auto pair = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
  const uint64_t hash = mix(pair ^ salt_[rail]);
  const auto modulo = [&](int count) {
    const auto parts = static_cast<uint64_t>(count);
    return static_cast<int>(std::has_single_bit(parts) ? hash & (parts - 1) : hash % parts);
  };
  if (!lame_[a] && !lame_[b]) return modulo(shape_.uplinks);
  std::vector<int> alive;
  for (int u = 0; u < shape_.uplinks; ++u)
    if (rates_[uplink(a, rail, u, false)] > 0 && rates_[uplink(b, rail, u, true)] > 0)
      alive.push_back(u);
  return alive[modulo(static_cast<int>(alive.size()))];
}

}  // namespace ringwood

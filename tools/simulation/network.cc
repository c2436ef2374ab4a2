#include "tools/simulation/network.h"

#include <algorithm>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {

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
    : shape_(shape) {
  if (shape.rails < 1 || shape.rails > kMaxRails)
    refuse(fmt::format("{} rails are not between 1 and {}", shape.rails, kMaxRails));
  for (int r = 0; r < ranks; ++r) {
    host_.push_back(machine.host_of(r));
    hosts_ = std::max(hosts_, host_[r] + 1);
  }
  std::vector<int> on_host(hosts_, 0);
  for (int r = 0; r < ranks; ++r) index_.push_back(on_host[host_[r]]++);
  const auto append = [&](const std::vector<double>& rates) {
    rates_.insert(rates_.end(), rates.begin(), rates.end());
    return links();
  };
  first_uplink_ =
      append(std::vector(static_cast<size_t>(2 * hosts_ * shape.rails), 1.0 / shape.rails));
  add_faults(faults.ports);
  require_ways();
  switches_ = Switches(shape, hosts_, faults.uplinks, first_uplink_);
  first_island_ = append(switches_.rates());
  const int first_pair =
      append(std::vector<double>(machine.has_devices() ? static_cast<size_t>(2 * ranks) : 0, 1));
  pairs_ = PairLinks(shape, hosts_, faults.links, first_pair);
  append(pairs_.rates());
}

void Network::add_faults(const std::vector<PortFault>& faults) {
  for (const PortFault& fault : faults) {
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
  if (link >= first_uplink_) return switches_.name(link);
  const int rail = link % shape_.rails, where = link / shape_.rails;
  return fmt::format("host{}/rail{} {}", where / 2, rail, where % 2 ? "in" : "out");
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
  if (link >= first_uplink_)
    return switches_.link_in(other.switches_, link, numbers.host(switches_.first_host(link)));
  const int rail = link % shape_.rails, where = link / shape_.rails;
  return other.port(numbers.host(where / 2), rail, where % 2 != 0);
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
    add_paths(from, to, rail, paths);
    if (shape_.use == RailUse::by_rank) return;
  }
}

// Those of several queue pairs that differ.
void Network::add_paths(int from, int to, int rail, std::vector<Path>& paths) const {
  const auto first = static_cast<std::ptrdiff_t>(paths.size());
  for (int q = 0; q < shape_.queue_pairs; ++q) {
    Path found = path(from, to, rail, q);
    found.first_of_rail = q == 0;
    const auto is_it = [&](const Path& one) { return one.links == found.links; };
    if (std::none_of(paths.begin() + first, paths.end(), is_it)) paths.push_back(found);
    if (found.above().empty()) return;
  }
}

Network::Path Network::path(int from, int to, int rail, int queue_pair) const {
  const int a = host_[from], b = host_[to];
  Path path;
  path.rail = rail;
  path.add(port(a, rail, false));
  path.add(port(b, rail, true));
  if (const int32_t own = pairs_.find(a, b, rail); own >= 0) path.add(own);
  path.ports = path.count;
  switches_.add_links({from, to, a, b, rail, queue_pair}, path);
  return path;
}

}  // namespace ringwood

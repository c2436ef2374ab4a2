#include "tools/simulation/machine_queues.h"

#include <algorithm>

namespace ringwood {
namespace {

// A dead port is never used, but has to have a rate.
constexpr double kDead = 1e-30;

std::vector<HostQueues::Rank> ranks_of(const Traffic& traffic, const Network& network,
                                       const Faults& faults) {
  std::vector<HostQueues::Rank> ranks;
  const auto n = static_cast<int>(traffic.ranks.size());
  for (int r = 0; r < n; ++r) ranks.push_back({network.host_of(r), traffic.ranks[r].on_cores, 1});
  for (const RankFault& fault : faults.slow) ranks[fault.rank].speed *= fault.value;
  return ranks;
}

}  // namespace

MachineQueues::MachineQueues(const Traffic& traffic, const MachineModel& machine,
                             const Network& network, const Faults& faults)
    : HostQueues(ranks_of(traffic, network, faults), machine, network.hosts()),
      traffic_(traffic),
      network_(network) {
  const auto add = [&](double rate) { return add_link(rate, rate); };
  for (int32_t link = 0; link < network.links(); ++link) {
    const int32_t added = add(std::max(kDead, network.rate(link)));
    if (link == 0) first_network_ = added;
  }
  for (int h = 0; h < 2 * network.hosts(); ++h) {
    const int32_t added = add(1);
    if (h == 0) first_middle_ = added;
  }
}

void MachineQueues::start_flow(JobKind kind, int32_t message, double bytes, bool both_ends) {
  const TrafficMessage& m = traffic_.messages[message];
  const CostMessage& price = traffic_.prices[m.price];
  const int32_t job = open_flow(kind, message, price, m.from, m.to, bytes, both_ends);
  if (price.path == PathClass::device && !price.between_hosts)
    for (const int32_t link : network_.island_path(m.from, m.to))
      use(queue(link), bytes * price.network, job);
  if (!price.between_hosts) return;
  use(first_middle_ + 2 * host(m.from), bytes * price.middle, job);
  use(first_middle_ + 2 * host(m.to) + 1, bytes * price.middle, job);
  if (bytes * price.network > 0) use_network(m, bytes, job);
}

// Seconds that one more message would take for each second of work on the slowest of these links.
double MachineQueues::waiting(std::span<const int32_t> links) const {
  double most = 0;
  for (const int32_t link : links)
    most = std::max(most, (queues().active(queue(link)) + 1) / queues().rate(queue(link)));
  return most;
}

void MachineQueues::use_ports(const Network::Path& path, const CostMessage& price, double bytes,
                              int32_t job) {
  for (const int32_t link : path.of_ports())
    use_port(queue(link), bytes, price.network, price.gap, job);
}

void MachineQueues::use_above(const Network::Path& path, const CostMessage& price, double bytes,
                              int32_t job) {
  for (const int32_t link : path.above()) use_port(queue(link), bytes, price.network, 0, job);
}

// Each piece goes to the rail, and there to the queue pair, that has least on its way; so they get
// parts by how fast they are at the moment. Those of one rail share its ports.
void MachineQueues::use_network(const TrafficMessage& m, double bytes, int32_t job) {
  network_.paths(m.from, m.to, paths_);
  const CostMessage& price = traffic_.prices[m.price];
  if (paths_.size() == 1 || !price.cut) {
    const auto less = [&](const auto& a, const auto& b) {
      return waiting(a.all()) < waiting(b.all());
    };
    const auto& first = *std::min_element(paths_.begin(), paths_.end(), less);
    use_ports(first, price, bytes, job);
    return use_above(first, price, bytes, job);
  }
  const auto speed = [](double waiting) { return 1 / std::max(kDead, waiting); };
  std::vector<double> of_rail(Network::kMaxRails, 0), above(paths_.size());
  for (size_t i = 0; i < paths_.size(); ++i)
    of_rail[paths_[i].rail] += above[i] = speed(waiting(paths_[i].above()));
  std::vector<double> part = of_rail;
  double all = 0;
  for (const Network::Path& path : paths_)
    if (double& rail = part[path.rail]; path.first_of_rail)
      all += rail = std::min(rail, speed(waiting(path.of_ports())));
  for (size_t i = 0; i < paths_.size(); ++i) {
    const Network::Path& path = paths_[i];
    const double of_this = bytes * part[path.rail] / all;
    if (path.first_of_rail) use_ports(path, price, of_this, job);
    use_above(path, price, of_this * (above[i] / of_rail[path.rail]), job);
  }
}

Busiest MachineQueues::busiest_resource() const {
  Busiest busiest = busiest_of_hosts();
  for (int32_t h = 0; h < 2 * network_.hosts(); ++h)
    busiest.add(Limit::uplink, queues().busy(first_middle_ + h));
  for (int32_t link = 0; link < network_.links(); ++link)
    busiest.add(network_.kind(link), queues().busy(queue(link)));
  return busiest;
}

std::vector<LinkUse> MachineQueues::busiest() const {
  std::vector<LinkUse> links;
  for (int32_t link = 0; link < network_.links(); ++link)
    if (const double busy = queues().busy(queue(link)); busy > 0) links.push_back({link, busy});
  const auto more = [](const LinkUse& a, const LinkUse& b) {
    return a.busy != b.busy ? a.busy > b.busy : a.link < b.link;
  };
  const size_t count = std::min(links.size(), kBusiestLinks);
  std::partial_sort(links.begin(), links.begin() + static_cast<ptrdiff_t>(count), links.end(),
                    more);
  links.resize(count);
  return links;
}

}  // namespace ringwood

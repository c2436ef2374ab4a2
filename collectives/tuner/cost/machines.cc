#include "collectives/tuner/cost/machines.h"

#include <algorithm>

namespace ringwood {
namespace {

std::vector<HostQueues::Rank> ranks_of(const CostModel& model) {
  std::vector<HostQueues::Rank> ranks;
  for (const CostRank& rank : model.ranks) ranks.push_back({rank.host, rank.on_cores, 1});
  return ranks;
}

}  // namespace

// A slow port is one of less capacity, so that its host alone waits for it.
CostMachines::CostMachines(const CostModel& model, const MachineModel& machine)
    : HostQueues(ranks_of(model), machine, model.hosts), model_(model) {
  for (size_t r = 0; r < model.ranks.size() && machine.has_devices(); ++r) {
    device_.push_back(add_link(1));
    add_link(1);
  }
  std::vector<int32_t> middle;  // by leaf, out and in
  for (const double hosts : model.leaf_hosts)
    for (int way = 0; way < 2; ++way) middle.push_back(add_link(hosts, model.most_parts));
  for (int h = 0; h < model.hosts; ++h) {
    const int32_t out = add_links(model.port_rates, h, model.ports);
    const int32_t in = add_links(model.port_rates, h, model.ports);
    int32_t rails_out = out, rails_in = in;
    if (model.rails > 1) {
      rails_out = add_links(model.rail_rates, h, model.rails);
      rails_in = add_links(model.rail_rates, h, model.rails);
    }
    const size_t leaf = 2 * static_cast<size_t>(model.leaf[h]);
    hosts_.push_back({out, in, rails_out, rails_in, middle[leaf], middle[leaf + 1]});
  }
}

int32_t CostMachines::add_links(const std::vector<double>& rates, int host, int count) {
  const int32_t first = add_link(rates[host * count]);
  for (int i = 1; i < count; ++i) add_link(rates[host * count + i]);
  return first;
}

void CostMachines::use_one_rail(const Host& here, const Host& there, const CostMessage& m,
                                double bytes, int32_t job) {
  const auto waiting = [&](int rail) {
    const auto one = [&](int32_t link) {
      return (queues().active(link) + 1) / queues().rate(link);
    };
    return std::max(one(here.rails_out + rail), one(there.rails_in + rail));
  };
  int best = 0;
  for (int rail = 1; rail < model_.rails; ++rail)
    if (waiting(rail) < waiting(best)) best = rail;
  use_port(here.rails_out + best, bytes, m.network, m.gap, job);
  use_port(there.rails_in + best, bytes, m.network, m.gap, job);
}

void CostMachines::start_flow(JobKind kind, int32_t message, double bytes, bool both_ends) {
  const CostMessage& m = model_.messages[message];
  const int32_t job = open_flow(kind, message, m, m.from, m.to, bytes, both_ends);
  if (m.path == PathClass::device && !m.between_hosts) {
    use(device_[m.from], bytes * m.network, job);
    use(device_[m.to] + 1, bytes * m.network, job);
  }
  if (!m.between_hosts) return;
  const Host &here = hosts_[host(m.from)], &there = hosts_[host(m.to)];
  if (model_.rails > 1 && !m.cut) {
    use_one_rail(here, there, m, bytes, job);
  } else {
    use_port(here.ports_out + m.port, bytes, m.network, m.gap, job);
    use_port(there.ports_in + m.port, bytes, m.network, m.gap, job);
  }
  use(here.middle_out, bytes * m.middle, job);
  use(there.middle_in, bytes * m.middle, job);
}

}  // namespace ringwood

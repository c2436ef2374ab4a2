#include "collectives/tuner/cost/machines.h"

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
  const auto add_ports = [&](int host) {
    const int32_t first = add_link(model.port_rates[host * model.ports]);
    for (int port = 1; port < model.ports; ++port)
      add_link(model.port_rates[host * model.ports + port]);
    return first;
  };
  for (size_t r = 0; r < model.ranks.size() && machine.has_devices(); ++r) {
    device_.push_back(add_link(1));
    add_link(1);
  }
  std::vector<int32_t> middle;  // by leaf, out and in
  for (const double hosts : model.leaf_hosts)
    for (int way = 0; way < 2; ++way) middle.push_back(add_link(hosts, model.most_parts));
  for (int h = 0; h < model.hosts; ++h) {
    const int32_t out = add_ports(h), in = add_ports(h);
    const size_t leaf = 2 * static_cast<size_t>(model.leaf[h]);
    hosts_.push_back({out, in, middle[leaf], middle[leaf + 1]});
  }
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
  use_port(here.ports_out + m.port, bytes, m.network, job);
  use_port(there.ports_in + m.port, bytes, m.network, job);
  use(here.middle_out, bytes * m.middle, job);
  use(there.middle_in, bytes * m.middle, job);
}

}  // namespace ringwood

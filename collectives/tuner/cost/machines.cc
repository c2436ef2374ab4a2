#include "collectives/tuner/cost/machines.h"

#include <algorithm>

namespace ringwood {
namespace {

// A job ends by leaving a queue, so that it has to use one.
constexpr double kNoTime = 1e-15;
// What a job costs in a queue, in units of CostMachines::work().
constexpr size_t kWorkInQueue = 3;

}  // namespace

CostMachines::CostMachines(const CostModel& model, const MachineModel& machine)
    : model_(model), machine_(machine), buckets_(machine.net.burst) {
  // Returns the first of them. A slow port is one of less capacity, so that its host alone waits
  // for it, and the host at the other end has the rest of its own port for others.
  const auto add_ports = [&](int host) {
    int32_t first = -1;
    for (int port = 0; port < model_.ports; ++port) {
      const double rate = model_.port_rates[host * model_.ports + port];
      const int32_t added = add_resource(rate);
      buckets_.set_rate(static_cast<size_t>(added), rate);
      if (port == 0) first = added;
    }
    return first;
  };
  for (size_t r = 0; r < model.ranks.size(); ++r) thread_.push_back(add_resource(1));
  for (size_t r = 0; r < model.ranks.size() && machine.has_devices(); ++r) {
    device_.push_back(add_resource(1));
    add_resource(1);
  }
  std::vector<int32_t> middle;  // by leaf, out and in
  for (const double hosts : model.leaf_hosts)
    for (int way = 0; way < 2; ++way) middle.push_back(add_resource(hosts, model.most_parts));
  for (int h = 0, cores = -1, memory = -1; h < model.hosts; ++h) {
    if (h % machine.net.sharing == 0) {
      const double part = part_of_set(machine, model.hosts, sharing_set(machine, h));
      cores = add_resource(machine.cores * part);
      memory = add_resource(part);
    }
    const int32_t out = add_ports(h), in = add_ports(h);
    const size_t leaf = 2 * static_cast<size_t>(model.leaf[h]);
    hosts_.push_back({cores, memory, out, in, middle[leaf], middle[leaf + 1]});
  }
}

// Of cores a job takes one at most.
int32_t CostMachines::add_resource(double capacity, double most) {
  return queues_.add_link(capacity, std::max(1, static_cast<int>(capacity / most)));
}

int32_t CostMachines::open(const CostJob& job) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t running = free_.back();
  free_.pop_back();
  jobs_[running] = {job, 0};
  return running;
}

void CostMachines::use(int32_t resource, double seconds, int32_t running) {
  if (seconds <= 0) return;
  ++jobs_[running].resources;
  work_ += kWorkInQueue;
  queues_.enter(resource, now_, seconds, running);
}

void CostMachines::use_thread(int rank, double seconds, int32_t running) {
  use(thread_[rank], seconds, running);
  if (model_.ranks[rank].on_cores > machine_.cores)
    use(hosts_[model_.ranks[rank].host].cores, seconds, running);
}

void CostMachines::start(const CostJob& job) {
  const int32_t running = open(job);
  use_thread(job.rank, std::max(job.seconds, kNoTime), running);
  use(hosts_[model_.ranks[job.rank].host].memory, job.memory, running);
}

double CostMachines::on_port(int32_t port, double bytes, double network) {
  if (network <= 0 || bytes <= 0) return 0;
  const auto at = static_cast<size_t>(port);
  return (bytes - buckets_.take(at, now_, bytes, buckets_.rate(at) / network)) * network;
}

void CostMachines::start_flow(JobKind kind, int32_t message, double bytes, const PerByte& out,
                              const PerByte& in) {
  const CostMessage& m = model_.messages[message];
  const Host &here = hosts_[model_.ranks[m.from].host], &there = hosts_[model_.ranks[m.to].host];
  const int32_t running = open({kind, -1, message, 0, 0});
  use_thread(m.from, std::max(bytes * out.core, kNoTime), running);
  use_thread(m.to, bytes * in.core, running);
  if (!m.between_hosts) {
    use(here.memory, bytes * (out.memory + in.memory), running);
    if (m.path != PathClass::device) return;
    use(device_[m.from], bytes * m.network, running);
    return use(device_[m.to] + 1, bytes * m.network, running);
  }
  use(here.memory, bytes * out.memory, running);
  use(there.memory, bytes * in.memory, running);
  const int32_t port_out = here.ports_out + m.port, port_in = there.ports_in + m.port;
  use(port_out, on_port(port_out, bytes, m.network), running);
  use(port_in, on_port(port_in, bytes, m.network), running);
  use(here.middle_out, bytes * m.middle, running);
  use(there.middle_in, bytes * m.middle, running);
}

void CostMachines::advance(double time, std::vector<CostJob>& ended) {
  now_ = std::max(now_, time);
  ended.clear();
  left_.clear();
  if (queues_.next() <= time) queues_.leave(left_);
  for (const LinkQueues::Left& left : left_) {
    Running& running = jobs_[left.job];
    if (--running.resources > 0) continue;
    ended.push_back(running.job);
    free_.push_back(left.job);
  }
}

}  // namespace ringwood

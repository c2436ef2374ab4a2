#include "collectives/tuner/cost/machines.h"

#include <algorithm>

namespace ringwood {
namespace {

// A job ends by leaving a queue, so that it has to use one.
constexpr double kNoTime = 1e-15;
// What a job costs in a queue, in units of FairShare::work().
constexpr size_t kWorkInQueue = 3;

}  // namespace

CostMachines::CostMachines(const CostModel& model, const MachineModel& machine)
    : model_(model),
      machine_(machine),
      queued_(host_count(machine) > 1 && machine.net.exceptions.empty()),
      buckets_(machine.net.burst) {
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
  return queued_ ? queues_.add_link(capacity, std::max(1, static_cast<int>(capacity / most)))
                 : share_.add_resource(capacity);
}

void CostMachines::start(const CostJob& job) {
  Uses uses{std::max(job.seconds, job.memory)};
  add_core(uses, job.rank, job.seconds);
  uses.add(hosts_[model_.ranks[job.rank].host].memory, job.memory);
  launch(job, uses.whole, uses);
}

void CostMachines::start_flow(JobKind kind, int32_t message, double bytes, const PerByte& out,
                              const PerByte& in) {
  const CostMessage& m = model_.messages[message];
  const int here = model_.ranks[m.from].host, there = model_.ranks[m.to].host;
  const int32_t port_out = hosts_[here].ports_out + m.port;
  const int32_t port_in = hosts_[there].ports_in + m.port;
  // Seconds of a port for each byte.
  const auto network_of = [&](int32_t port) {
    if (!m.between_hosts || m.network <= 0 || bytes <= 0) return m.network;
    const auto at = static_cast<size_t>(port);
    return m.network * (1 - buckets_.take(at, now(), bytes, buckets_.rate(at) / m.network) / bytes);
  };
  const double network_out = network_of(port_out), network_in = network_of(port_in);
  // Each resource alone would take this long for a byte; the slowest determines the time.
  // The middle and slow ports do not count here, so that flows of one port share it evenly: they
  // may ask for more than there is, and are limited to what there is by the sharing.
  Uses uses{
      std::max({out.core, in.core, network_out, network_in,
                !m.between_hosts ? out.memory + in.memory : std::max(out.memory, in.memory)})};
  add_core(uses, m.from, out.core);
  add_core(uses, m.to, in.core);
  if (m.path == PathClass::device) {
    uses.add(device_[m.from], m.network);
    uses.add(device_[m.to] + 1, m.network);
  } else if (!m.between_hosts) {
    uses.add(hosts_[here].memory, out.memory + in.memory);
  } else {
    if (queued_) {
      uses.add(hosts_[here].memory, out.memory);
      uses.add(hosts_[there].memory, in.memory);
    }
    uses.add(port_out, network_out);
    uses.add(port_in, network_in);
    uses.add(hosts_[here].middle_out, m.middle);
    uses.add(hosts_[there].middle_in, m.middle);
  }
  launch({kind, -1, message, 0, 0}, bytes * uses.whole, uses);
}

void CostMachines::add_core(Uses& uses, int rank, double seconds) const {
  uses.add(thread_[rank], seconds);
  if (model_.ranks[rank].on_cores > machine_.cores)
    uses.add(hosts_[model_.ranks[rank].host].cores, seconds);
}

void CostMachines::launch(const CostJob& job, double seconds, const Uses& uses) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t tag = free_.back();
  free_.pop_back();
  jobs_[tag] = {job, 0};
  if (!queued_) return share_.start(seconds, {uses.use, uses.count}, tag);
  const auto enter = [&](int32_t resource, double amount) {
    ++jobs_[tag].resources;
    work_ += kWorkInQueue;
    queues_.enter(resource, now_, std::max(kNoTime, amount), tag);
  };
  for (size_t i = 0; i < uses.count; ++i) enter(uses.use[i].resource, seconds * uses.use[i].part);
  if (uses.count == 0) {
    const int rank = job.rank >= 0 ? job.rank : model_.messages[job.index].from;
    enter(thread_[rank], kNoTime);
  }
}

void CostMachines::leave(double time) {
  now_ = std::max(now_, time);
  left_.clear();
  if (queues_.next() <= time) queues_.leave(left_);
  for (const LinkQueues::Left& left : left_)
    if (--jobs_[left.job].resources == 0) finished_.push_back(left.job);
}

void CostMachines::advance(double time, std::vector<CostJob>& ended) {
  finished_.clear();
  ended.clear();
  if (queued_)
    leave(time);
  else
    share_.advance(time, finished_);
  for (const int32_t tag : finished_) ended.push_back(jobs_[tag].job);
  free_.insert(free_.end(), finished_.begin(), finished_.end());
}

}  // namespace ringwood

#include "collectives/cost/machines.h"

#include <algorithm>

namespace ringwood {

CostMachines::CostMachines(const CostModel& model, const MachineModel& machine)
    : model_(model), machine_(machine) {
  for (size_t r = 0; r < model.ranks.size(); ++r) thread_.push_back(share_.add_resource(1));
  for (int h = 0; h < model.hosts; ++h) {
    const int32_t cores = share_.add_resource(machine.cores);
    const int32_t memory = share_.add_resource(1);
    const int32_t out = add_ports(h), in = add_ports(h);
    const int32_t middle_out = share_.add_resource(1);
    hosts_.push_back({cores, memory, out, in, middle_out, share_.add_resource(1)});
  }
}

// Returns the first of them. A slow port is one of less capacity, so that its host alone waits for
// it, and the host at the other end has the rest of its own port for others.
int32_t CostMachines::add_ports(int host) {
  int32_t first = -1;
  for (int port = 0; port < model_.ports; ++port) {
    const int32_t added = share_.add_resource(model_.port_rates[host * model_.ports + port]);
    if (port == 0) first = added;
  }
  return first;
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
  // Each resource alone would take this long for a byte; the slowest determines the time.
  // The middle and slow ports do not count here, so that flows of one port share it evenly: they
  // may ask for more than there is, and are held to what there is by the sharing.
  Uses uses{
      std::max({out.core, in.core, m.wire,
                !m.between_hosts ? out.memory + in.memory : std::max(out.memory, in.memory)})};
  add_core(uses, m.from, out.core);
  add_core(uses, m.to, in.core);
  if (!m.between_hosts) {
    uses.add(hosts_[here].memory, out.memory + in.memory);
  } else {
    uses.add(hosts_[here].ports_out + m.port, m.wire);
    uses.add(hosts_[there].ports_in + m.port, m.wire);
    uses.add(hosts_[here].middle_out, m.middle);
    uses.add(hosts_[there].middle_in, m.middle);
  }
  launch({kind, -1, message, 0, 0}, bytes * uses.whole, uses);
}

void CostMachines::add_core(Uses& uses, int rank, double seconds) const {
  uses.add(thread_[rank], seconds);
  if (model_.ranks[rank].on_host > machine_.cores)
    uses.add(hosts_[model_.ranks[rank].host].cores, seconds);
}

void CostMachines::launch(const CostJob& job, double seconds, const Uses& uses) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t tag = free_.back();
  free_.pop_back();
  jobs_[tag] = job;
  share_.start(seconds, {uses.use, uses.count}, tag);
}

void CostMachines::advance(double time, std::vector<CostJob>& ended) {
  finished_.clear();
  ended.clear();
  share_.advance(time, finished_);
  for (const int32_t tag : finished_) ended.push_back(jobs_[tag]);
  free_.insert(free_.end(), finished_.begin(), finished_.end());
}

}  // namespace ringwood

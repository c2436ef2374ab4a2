#include "collectives/tuner/cost/host_queues.h"

#include <algorithm>
#include <utility>

namespace ringwood {
namespace {

// A job ends by leaving a queue, so that it has to use one.
constexpr double kNoTime = 1e-15;
// What a job costs in a queue, in units of HostQueues::work().
constexpr size_t kWorkInQueue = 3;

}  // namespace

HostQueues::HostQueues(std::vector<Rank> ranks, const MachineModel& machine, int hosts)
    : ranks_(std::move(ranks)), machine_(machine), buckets_(machine.net.burst) {
  for (const Rank& rank : ranks_) add_link(rank.speed);
  const int sets = sharing_sets(machine, hosts);
  const auto part = [&](int set) { return part_of_set(machine, hosts, set); };
  first_cores_ = static_cast<int32_t>(ranks_.size());
  for (int set = 0; set < sets; ++set) add_link(machine.cores * part(set));
  first_memory_ = first_cores_ + sets;
  for (int set = 0; set < sets; ++set) add_link(part(set));
  last_ = first_memory_ + sets;
}

// Of cores a job takes one at most.
int32_t HostQueues::add_link(double capacity, double most) {
  return queues_.add_link(capacity, std::max(1, static_cast<int>(capacity / most)));
}

int32_t HostQueues::open(const CostJob& job) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(jobs_.size()));
    jobs_.push_back({});
  }
  const int32_t number = free_.back();
  free_.pop_back();
  jobs_[number] = {job, 0};
  return number;
}

void HostQueues::use(int32_t link, double seconds, int32_t job) {
  if (seconds <= 0) return;
  ++jobs_[job].links;
  work_ += kWorkInQueue;
  queues_.enter(link, now_, seconds, job);
}

void HostQueues::use_port(int32_t port, double bytes, double network, double gap, int32_t job) {
  if (network <= 0 || bytes <= 0) return;
  const double rate = queues_.rate(port) / network;
  const double at_once = buckets_.take(static_cast<size_t>(port), now_, bytes, rate);
  use(port, (bytes - at_once) * network + gap * queues_.rate(port), job);
}

void HostQueues::use_thread(int rank, double seconds, int32_t job) {
  use(rank, seconds, job);
  if (ranks_[rank].on_cores > machine_.cores) use(first_cores_ + set_of(rank), seconds, job);
}

void HostQueues::use_memory(int rank, double seconds, int32_t job) {
  use(first_memory_ + set_of(rank), seconds, job);
}

void HostQueues::start(const CostJob& job) {
  const int32_t number = open(job);
  use_thread(job.rank, std::max(job.seconds, kNoTime), number);
  use_memory(job.rank, job.memory, number);
}

int32_t HostQueues::open_flow(JobKind kind, int32_t index, const CostMessage& m, int from, int to,
                              double bytes, bool both_ends) {
  const PerByte in = both_ends ? m.in : PerByte{};
  const int32_t number = open({kind, -1, index, 0, 0});
  use_thread(from, std::max(bytes * m.out.core, kNoTime), number);
  use_thread(to, bytes * in.core, number);
  if (m.between_hosts) {
    use_memory(from, bytes * m.out.memory, number);
    use_memory(to, bytes * in.memory, number);
  } else {
    use_memory(from, bytes * (m.out.memory + in.memory), number);
  }
  return number;
}

void HostQueues::leave(std::vector<CostJob>& ended) {
  left_.clear();
  if (queues_.next() <= now_) queues_.leave(left_);
  for (const LinkQueues::Left& left : left_) {
    Running& running = jobs_[left.job];
    if (--running.links > 0) continue;
    ended.push_back(running.job);
    free_.push_back(left.job);
  }
}

Busiest HostQueues::busiest_of_hosts() const {
  Busiest busiest;
  for (int32_t link = 0; link < last_; ++link)
    busiest.add(link < first_memory_ ? Limit::core : Limit::memory, queues_.busy(link));
  return busiest;
}

}  // namespace ringwood

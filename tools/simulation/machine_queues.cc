#include "tools/simulation/machine_queues.h"

#include <algorithm>

#include <fmt/format.h>

#include "transports/base/error.h"

namespace ringwood {
namespace {

// A dead port is never used, but has to have a rate.
constexpr double kDead = 1e-30;
// A job ends by leaving a link, so that it has to use one.
constexpr double kNoTime = 1e-15;

}  // namespace

MachineQueues::MachineQueues(const Traffic& traffic, const MachineModel& machine,
                             const Network& network, const Faults& faults)
    : traffic_(traffic), machine_(machine), network_(network), buckets_(machine.net.burst) {
  const auto n = static_cast<int>(traffic.ranks.size());
  std::vector<double> speed(n, 1);
  for (const RankFault& fault : faults.slow) {
    if (fault.rank >= n)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("there is no rank{}: the last one is rank{}", fault.rank, n - 1));
    speed[fault.rank] *= fault.value;
  }
  for (int32_t link = 0; link < network.links(); ++link)
    queues_.add_link(std::max(kDead, network.rate(link)));
  first_thread_ = network.links();
  for (int r = 0; r < n; ++r) queues_.add_link(speed[r]);
  first_cores_ = first_thread_ + n;
  const int sets = sharing_sets(machine, network.hosts());
  const auto part = [&](int set) { return part_of_set(machine, network.hosts(), set); };
  for (int set = 0; set < sets; ++set) {
    const double cores = machine.cores * part(set);
    queues_.add_link(cores, std::max(1, static_cast<int>(cores)));
  }
  first_memory_ = first_cores_ + sets;
  for (int set = 0; set < sets; ++set) queues_.add_link(part(set));
  first_middle_ = first_memory_ + sets;
  for (int h = 0; h < 2 * network.hosts(); ++h) queues_.add_link(1);
}

int32_t MachineQueues::open(const CostJob& job) {
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(running_.size()));
    running_.push_back({});
  }
  const int32_t running = free_.back();
  free_.pop_back();
  running_[running] = {job, 0};
  return running;
}

void MachineQueues::use(int32_t link, double amount, int32_t running, double now) {
  if (amount <= 0) return;
  ++running_[running].links;
  queues_.enter(link, now, amount, running);
}

void MachineQueues::use_thread(int rank, double seconds, int32_t running, double now) {
  use(first_thread_ + rank, seconds, running, now);
  if (traffic_.ranks[rank].on_cores > machine_.cores)
    use(first_cores_ + set_of(network_.host_of(rank)), seconds, running, now);
}

void MachineQueues::start(const CostJob& job, double now) {
  const int32_t running = open(job);
  use_thread(job.rank, std::max(job.seconds, kNoTime), running, now);
  use(first_memory_ + set_of(network_.host_of(job.rank)), job.memory, running, now);
}

void MachineQueues::start_flow(JobKind kind, int32_t message, double bytes, bool both_ends,
                               double now) {
  const TrafficMessage& m = traffic_.messages[message];
  const CostMessage& price = traffic_.prices[m.price];
  const PerByte in = both_ends ? price.in : PerByte{};
  const int32_t running = open({kind, -1, message, 0, 0});
  use_thread(m.from, std::max(bytes * price.out.core, kNoTime), running, now);
  use_thread(m.to, bytes * in.core, running, now);
  const int here = network_.host_of(m.from), there = network_.host_of(m.to);
  if (!price.between_hosts) {
    use(first_memory_ + set_of(here), bytes * (price.out.memory + in.memory), running, now);
    if (price.path == PathClass::device)
      for (const int32_t link : network_.island_path(m.from, m.to))
        use(link, bytes * price.network, running, now);
    return;
  }
  use(first_memory_ + set_of(here), bytes * price.out.memory, running, now);
  use(first_memory_ + set_of(there), bytes * in.memory, running, now);
  use(first_middle_ + 2 * here, bytes * price.middle, running, now);
  use(first_middle_ + 2 * there + 1, bytes * price.middle, running, now);
  if (bytes * price.network > 0) use_network(m, bytes, running, now);
}

// Seconds that one more message would take for each second of work on the path's slowest link.
double MachineQueues::waiting(const Network::Path& path) const {
  double most = 0;
  for (int i = 0; i < path.count; ++i)
    most = std::max(most, (queues_.active(path.links[i]) + 1) / queues_.rate(path.links[i]));
  return most;
}

void MachineQueues::use_piece(const Network::Path& path, double bytes, double network,
                              int32_t running, double now) {
  for (int i = 0; i < path.count; ++i) {
    const int32_t link = path.links[i];
    const double rate = queues_.rate(link) / network;
    const double at_once = buckets_.take(static_cast<size_t>(link), now, bytes, rate);
    use(link, (bytes - at_once) * network, running, now);
  }
}

// Each piece goes to the path that has least on its way, so paths get parts by how fast they are
// at the moment.
void MachineQueues::use_network(const TrafficMessage& m, double bytes, int32_t running,
                                double now) {
  network_.paths(m.from, m.to, paths_);
  const double network = traffic_.prices[m.price].network;
  if (paths_.size() == 1) return use_piece(paths_[0], bytes, network, running, now);
  double speeds = 0;
  if (!in_pieces(traffic_.prices[m.price].bytes)) {
    const auto less = [&](const auto& a, const auto& b) { return waiting(a) < waiting(b); };
    return use_piece(*std::min_element(paths_.begin(), paths_.end(), less), bytes, network, running,
                     now);
  }
  std::vector<double> speed;
  for (const Network::Path& path : paths_) {
    speed.push_back(1 / waiting(path));
    speeds += speed.back();
  }
  for (size_t i = 0; i < paths_.size(); ++i)
    use_piece(paths_[i], bytes * speed[i] / speeds, network, running, now);
}

void MachineQueues::leave(std::vector<CostJob>& ended) {
  left_.clear();
  queues_.leave(left_);
  for (const LinkQueues::Left& left : left_) {
    Running& running = running_[left.job];
    if (--running.links > 0) continue;
    ended.push_back(running.job);
    free_.push_back(left.job);
  }
}

Busiest MachineQueues::busiest_resource() const {
  Busiest busiest;
  const int32_t last = first_middle_ + 2 * network_.hosts();
  for (int32_t link = first_thread_; link < last; ++link)
    busiest.add(link < first_memory_   ? Limit::core
                : link < first_middle_ ? Limit::memory
                                       : Limit::uplink,
                queues_.busy(link));
  for (int32_t link = 0; link < network_.links(); ++link)
    busiest.add(network_.kind(link), queues_.busy(link));
  return busiest;
}

std::vector<LinkUse> MachineQueues::busiest() const {
  std::vector<LinkUse> links;
  for (int32_t link = 0; link < network_.links(); ++link)
    if (const double busy = queues_.busy(link); busy > 0) links.push_back({link, busy});
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

// What the jobs of a simulation (cost.h) share on the hosts, each a queue of its own
// (link_queues.h): each rank's thread, and the cores and the memory of the hosts that share them.
// Both simulations have these; what lies between the hosts they add: the cost model its few ports
// (machines.h), that of large groups a network (tools/simulation/machine_queues.h).
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/link_queues.h"
#include "collectives/tuner/cost/threads.h"
#include "collectives/tuner/cost/token_buckets.h"

namespace ringwood {

class HostQueues {
 public:
  struct Rank {
    int host = 0;
    int on_cores = 1;  // CostRank::on_cores
    double speed = 1;  // of its thread
  };

  // Starts a job of one thread now.
  void start(const CostJob& job);

  double now() const { return now_; }
  // When the next job ends; infinity without jobs.
  double next() const { return queues_.next(); }
  // Precondition: not before now(), not after next().
  void advance(double now) { now_ = now; }
  // Appends the jobs that end at next(), if that is now or was.
  void leave(std::vector<CostJob>& ended);
  // As TokenBuckets::busiest().
  double busiest_port() const { return buckets_.busiest(); }
  // The effort of the simulation so far, whatever machine runs it: some 20 to 50 ns each.
  size_t work() const { return work_; }

 protected:
  // `machine` is memory of the caller.
  HostQueues(std::vector<Rank> ranks, const MachineModel& machine, int hosts);

  // `most`: of it, for one job.
  int32_t add_link(double capacity, double most = 1);
  // The number of a flow of this many bytes of a message that begins now, on the threads of its
  // ends and in the memory of their hosts. `out`, `in`: for each byte.
  int32_t open_flow(JobKind kind, int32_t index, const CostMessage& m, int from, int to,
                    double bytes, bool both_ends);
  void use(int32_t link, double seconds, int32_t job);
  // For bytes through a port, at so many seconds of a whole interface for each; less what it
  // passes at once, and `gap` seconds more.
  void use_port(int32_t port, double bytes, double network, double gap, int32_t job);
  int host(int rank) const { return ranks_[rank].host; }
  const LinkQueues& queues() const { return queues_; }
  // Of threads, cores and memory.
  Busiest busiest_of_hosts() const;

 private:
  struct Running {
    CostJob job;
    int32_t links = 0;  // that it has not left
  };

  int32_t open(const CostJob& job);
  void use_thread(int rank, double seconds, int32_t job);
  void use_memory(int rank, double seconds, int32_t job);
  int set_of(int rank) const { return sharing_set(machine_, host(rank)); }

  const std::vector<Rank> ranks_;
  const MachineModel& machine_;
  LinkQueues queues_;
  double now_ = 0;
  size_t work_ = 0;
  // The first links: threads by rank, then cores and memory by set of hosts that share them.
  int32_t first_cores_ = 0, first_memory_ = 0, last_ = 0;
  TokenBuckets buckets_;       // by link, of ports
  std::vector<Running> jobs_;  // by number
  std::vector<int32_t> free_;
  std::vector<LinkQueues::Left> left_;
};

}  // namespace ringwood

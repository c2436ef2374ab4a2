// Everything that the jobs of a simulation share, as links of link_queues.h: each rank's thread,
// the cores and the memory of each host, and the network. Part of events.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/tuner/cost/link_queues.h"
#include "collectives/tuner/cost/threads.h"
#include "collectives/tuner/cost/token_buckets.h"
#include "tools/simulation/events.h"

namespace ringwood {

class MachineQueues final {
 public:
  // All but the faults are memory of the caller.
  MachineQueues(const Traffic& traffic, const MachineModel& machine, const Network& network,
                const Faults& faults);

  // Starts a job of one thread.
  void start(const CostJob& job, double now);
  // Starts a flow of this many bytes of a message through everything that they use: a body, or the
  // part of the sender alone.
  void start_flow(JobKind kind, int32_t message, double bytes, bool both_ends, double now);

  // When the next job ends; infinity without jobs.
  double next() const { return queues_.next(); }
  // Appends the jobs that end at next().
  void leave(std::vector<CostJob>& ended);
  std::vector<LinkUse> busiest() const;
  Busiest busiest_resource() const;
  // As TokenBuckets::busiest().
  double busiest_port() const { return buckets_.busiest(); }

 private:
  struct Running {
    CostJob job;
    int32_t links = 0;  // that it has not left
  };

  int32_t open(const CostJob& job);
  void use(int32_t link, double amount, int32_t running, double now);
  void use_thread(int rank, double seconds, int32_t running, double now);
  void use_network(const TrafficMessage& m, double bytes, int32_t running, double now);
  // `network`: seconds of a whole interface for a byte.
  void use_piece(const Network::Path& path, double bytes, double network, int32_t running,
                 double now);
  double waiting(const Network::Path& path) const;
  int set_of(int host) const { return sharing_set(machine_, host); }

  const Traffic& traffic_;
  const MachineModel& machine_;
  const Network& network_;
  LinkQueues queues_;
  TokenBuckets buckets_;  // by link of the network
  // Links: of the network, threads by rank, cores and memory by set of hosts that share them, and
  // each host's part of what lies between far ones, out and in.
  int32_t first_thread_ = 0, first_cores_ = 0, first_memory_ = 0, first_middle_ = 0;
  std::vector<Running> running_;
  std::vector<int32_t> free_;
  std::vector<LinkQueues::Left> left_;
  std::vector<Network::Path> paths_;
};

}  // namespace ringwood

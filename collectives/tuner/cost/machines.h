// The cores, memory, devices and network interfaces of a simulation (cost.h), which the jobs of all
// ranks share: each is a queue of its own (link_queues.h), as where all ranks of a large group are
// simulated (tools/simulation/). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/link_queues.h"
#include "collectives/tuner/cost/threads.h"
#include "collectives/tuner/cost/token_buckets.h"

namespace ringwood {

class CostMachines final {
 public:
  // Both are memory of the caller.
  CostMachines(const CostModel& model, const MachineModel& machine);

  // Starts a job of one thread now.
  void start(const CostJob& job);
  // Starts a flow of this many bytes of a message through everything that they use at the same
  // time: a body, or the part of the sender alone.
  void start_flow(JobKind kind, int32_t message, double bytes, const PerByte& out,
                  const PerByte& in);

  double now() const { return now_; }
  // When the next job ends; infinity without jobs.
  double next() const { return queues_.next(); }
  // Advances to `time` <= next(); `ended` becomes the jobs that end there.
  void advance(double time, std::vector<CostJob>& ended);
  // As TokenBuckets::busiest().
  double busiest_port() const { return buckets_.busiest(); }
  // The effort of the simulation so far, whatever machine runs it: some 20 ns each.
  size_t work() const { return work_; }

 private:
  struct Host {
    // Resources, with those of a port from the first one on; cores and memory are those of all
    // hosts that share them, the middle that of all hosts of a leaf.
    int32_t cores, memory, ports_out, ports_in, middle_out, middle_in;
  };

  struct Running {
    CostJob job;
    int32_t resources = 0;  // queues that it has not left
  };

  // `most`: of it, for one job.
  int32_t add_resource(double capacity, double most = 1);
  // The number of a job that begins now, and uses nothing yet.
  int32_t open(const CostJob& job);
  void use(int32_t resource, double seconds, int32_t running);
  void use_thread(int rank, double seconds, int32_t running);
  // Seconds of a port for these bytes, at so much a byte; less what it passes at once.
  double on_port(int32_t port, double bytes, double network);

  const CostModel& model_;
  const MachineModel& machine_;
  LinkQueues queues_;
  double now_ = 0;
  size_t work_ = 0;
  std::vector<int32_t> thread_;  // by rank: its resource
  std::vector<int32_t> device_;  // by rank: its port out, which that in follows; or empty
  std::vector<Host> hosts_;
  TokenBuckets buckets_;       // by resource, of ports
  std::vector<Running> jobs_;  // by number
  std::vector<int32_t> free_;
  std::vector<LinkQueues::Left> left_;
};

}  // namespace ringwood

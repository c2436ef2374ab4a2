// The cores, memory, devices and network interfaces of a simulation (cost.h), which the jobs of all
// ranks share: on several hosts that are alike each as a queue of its own (link_queues.h), as where
// all ranks of a large group are simulated (tools/simulation/); else max-min fairly (cost_share.h),
// since a message that a slow host delays leaves the rest of the other's port to others. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/cost_share.h"
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

  // Each resource is a queue of its own.
  bool queued() const { return queued_; }
  double now() const { return queued_ ? now_ : share_.now(); }
  // When the next job ends; infinity without jobs.
  double next() { return queued_ ? queues_.next() : share_.next(); }
  // Advances to `time` <= next(); `ended` becomes the jobs that end there.
  void advance(double time, std::vector<CostJob>& ended);
  // As TokenBuckets::busiest().
  double busiest_port() const { return buckets_.busiest(); }
  // As FairShare::work().
  size_t work() const { return queued_ ? work_ : share_.work(); }

 private:
  // The resources of one job, which alone would take `whole` seconds.
  struct Uses {
    double whole;
    FairShare::Use use[10] = {};  // threads, cores, memory and interfaces of both ends
    size_t count = 0;
    void add(int32_t resource, double seconds) {
      if (seconds > 0) use[count++] = {resource, seconds / whole};
    }
  };
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
  void add_core(Uses& uses, int rank, double seconds) const;
  void launch(const CostJob& job, double seconds, const Uses& uses);
  void leave(double time);

  const CostModel& model_;
  const MachineModel& machine_;
  const bool queued_;
  FairShare share_;
  LinkQueues queues_;
  double now_ = 0;               // of the queues
  size_t work_ = 0;              // likewise
  std::vector<int32_t> thread_;  // by rank: its resource
  std::vector<int32_t> device_;  // by rank: its port out, which that in follows; or empty
  std::vector<Host> hosts_;
  TokenBuckets buckets_;       // by resource, of ports
  std::vector<Running> jobs_;  // by tag
  std::vector<int32_t> free_, finished_;
  std::vector<LinkQueues::Left> left_;
};

}  // namespace ringwood

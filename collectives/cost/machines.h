// The cores, memory and network interfaces of a simulation (cost.h), which the jobs of all ranks
// share (cost_share.h). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/cost/cost_model.h"
#include "collectives/cost/cost_share.h"
#include "collectives/cost/threads.h"

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

  double now() const { return share_.now(); }
  // When the next job ends; infinity without jobs.
  double next() { return share_.next(); }
  // Advances to `time` <= next(); `ended` becomes the jobs that end there.
  void advance(double time, std::vector<CostJob>& ended);
  size_t work() const { return share_.work(); }

 private:
  // The resources of one job, which alone would take `whole` seconds.
  struct Uses {
    double whole;
    FairShare::Use use[MaxMin::kMaxUses] = {};
    size_t count = 0;
    void add(int32_t resource, double seconds) {
      if (seconds > 0) use[count++] = {resource, seconds / whole};
    }
  };
  struct Host {
    // Resources, with those of a port from the first one on.
    int32_t cores, memory, ports_out, ports_in, middle_out, middle_in;
  };

  int32_t add_ports(int host);
  void add_core(Uses& uses, int rank, double seconds) const;
  void launch(const CostJob& job, double seconds, const Uses& uses);

  const CostModel& model_;
  const MachineModel& machine_;
  FairShare share_;
  std::vector<int32_t> thread_;  // by rank: its resource
  std::vector<Host> hosts_;
  std::vector<CostJob> jobs_;  // running, by tag
  std::vector<int32_t> free_, finished_;
};

}  // namespace ringwood

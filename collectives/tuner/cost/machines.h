// The machines of a simulation by the cost model (cost.h): hosts, and what each has of a network:
// its devices' ports, those of its interfaces, and its part of what lies between far hosts.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/tuner/cost/host_queues.h"

namespace ringwood {

class CostMachines final : public HostQueues {
 public:
  // Both are memory of the caller.
  CostMachines(const CostModel& model, const MachineModel& machine);

  // Starts a flow of this many bytes of a message through everything that they use at the same
  // time: a body, or the part of the sender alone.
  void start_flow(JobKind kind, int32_t message, double bytes, bool both_ends);

 private:
  // Links, with those of ports and of a port's rails from the first one on; the middle is that of
  // all hosts of a leaf.
  struct Host {
    int32_t ports_out, ports_in, rails_out, rails_in, middle_out, middle_in;
  };

  int32_t add_links(const std::vector<double>& rates, int host, int count);
  // One that is not cut takes the rail that would be through with it first. What is cut takes a
  // queue of its own: rails do not see both.
  void use_one_rail(const Host& here, const Host& there, const CostMessage& m, double bytes,
                    int32_t job);

  const CostModel& model_;
  std::vector<int32_t> device_;  // by rank: its port out, which that in follows; or empty
  std::vector<Host> hosts_;
};

}  // namespace ringwood

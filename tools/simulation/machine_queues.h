// The machines of a simulation of every rank (events.h): hosts, and a network of links between
// them. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/tuner/cost/host_queues.h"
#include "tools/simulation/events.h"

namespace ringwood {

class MachineQueues final : public HostQueues {
 public:
  // All but the faults are memory of the caller.
  MachineQueues(const Traffic& traffic, const MachineModel& machine, const Network& network,
                const Faults& faults);

  // Starts a flow of this many bytes of a message through everything that they use: a body, or the
  // part of the sender alone.
  void start_flow(JobKind kind, int32_t message, double bytes, bool both_ends);

  std::vector<LinkUse> busiest() const;
  Busiest busiest_resource() const;

 private:
  void use_network(const TrafficMessage& m, double bytes, int32_t job);
  void use_ports(const Network::Path& path, const CostMessage& price, double bytes, int32_t job);
  // Those above the ports, which a message takes as long as its bytes do.
  void use_above(const Network::Path& path, const CostMessage& price, double bytes, int32_t job);
  double waiting(std::span<const int32_t> links) const;
  // Of a link of the network.
  int32_t queue(int32_t link) const { return first_network_ + link; }

  const Traffic& traffic_;
  const Network& network_;
  // Those of the network, and each host's part of what lies between far ones, out and in.
  int32_t first_network_ = 0, first_middle_ = 0;
  std::vector<Network::Path> paths_;
};

}  // namespace ringwood

// Plans with their costs in seconds on a MachineModel: what cost.cc simulates. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"
#include "collectives/tuner/busiest.h"
#include "collectives/tuner/cost/cost.h"
#include "collectives/tuner/cost/cost_quotient.h"

namespace ringwood {

// Seconds of a core, and of its host's memory, for each byte.
struct PerByte {
  double core = 0, memory = 0;
};

struct CostMessage {
  int32_t from = 0, to = 0;                // of CostModel::ranks
  int32_t send_step = -1, recv_step = -1;  // -1: that end is missing
  int32_t next = -1;  // the message after this one on the same link and direction
  bool between_hosts = false, between_nodes = false, reduces = false;
  PathClass path = PathClass::memory;
  bool in_place = false;  // read by the receiver from the sender's buffer
  bool scratch = false;   // sent from scratch, which is registered memory
  bool as_left = false;   // in the sender's buffer, written by the receiver only
  bool puts = false;      // written by the sender into the receiver's buffer
  double bytes = 0;
  double head = 0;               // the bytes that the sender writes before the receiver can begin
  bool behind = false;           // it comes right behind a fingerprint (plan/agreement.h)
  double posted = 0, taken = 0;  // seconds of the sender's core and of the receiver's
  PerByte encode;                // by the sender, of all bytes, before the first of them leaves
  double latency = 0;            // seconds from the end of the write until the receiver sees it
  PerByte out, in;               // of the sender's core and of the receiver's
  double network = 0;  // seconds of a whole network interface at each end, for each byte; between
                       // devices, of their ports
  double middle = 0;   // seconds of a host's part of what lies between far hosts, for each byte;
                       // 0: there is all it needs
  int32_t port = 0;    // between hosts, at both ends (machine_model.h)
  double gap = 0;      // seconds of its ports beyond its bytes
  bool cut = false;    // goes over all rails of a port that is several (NetworkParameters::piece)
  double eager = 0;    // bytes that the link takes before the receiver is ready
};

struct CostRank {
  const Plan* plan = nullptr;    // one of CostModel::plans
  int host = 0;                  // of CostModel::hosts
  std::vector<double> bytes;     // by step
  std::vector<int32_t> message;  // by step: its message, -1 = local or empty
  PerByte copies, reduces;       // in this rank's working set
  double in_l2 = 0, in_l3 = 0;   // the parts of the working set in these caches
  double own_block = 0;          // bytes that it copies in addition, once the ranks have agreed
  int on_cores = 1;              // ranks that share its cores, this one included
  bool sends = true, receives = true;  // any message inside its host
  double turn = 0;                     // seconds that it waits for a core
};

struct CostModel {
  std::vector<Plan> plans;  // of all ranks, or of those of host 0
  std::vector<CostRank> ranks;
  std::vector<CostMessage> messages;
  std::vector<int32_t> heads;      // the first message of each link and direction
  int hosts = 1, ports = 1;        // ports of each host
  std::vector<double> port_rates;  // by host and port: of a whole interface that is not slow
  int rails = 1;                   // that a port is; of several, one that is not cut takes one
  std::vector<double> rail_rates;  // by host and rail, where there are several
  double burst = 0;                // of each port (machine_model.h)
  // What lies between far hosts is shared by those of a leaf switch; a host whose leaf is not known
  // has its own. By host its leaf; by leaf its hosts; and how many hosts' parts a message gets.
  std::vector<int> leaf;
  std::vector<double> leaf_hosts;
  double most_parts = 1;
  double agreed = 0;    // time from which receives may be posted
  double agreeing = 0;  // seconds of each core until then
};
// The bytes of a rank's buffers, scratch included.
double buffer_bytes(const Plan& plan);
// The call that a load stands for. A schedule may be in segments already: then each of its chunks
// is a block.
CollectiveArgs args_of(const Schedule& schedule, const Load& load);
// The plans that the passes make of the schedules of some or all ranks, for this load among ranks
// placed as the machine model says. Private buffers are never fused, and none is published: each
// rank decides that for itself.
std::vector<Plan> plans_of(const std::vector<Schedule>& schedules, int segment_count,
                           const Load& load, const MachineModel& machine);
// The plans are those of all ranks, in order, or, with a symmetry, those of the ranks of host 0.
// Throws Error(invalid_argument) where a message has only one end.
CostModel model_of(std::vector<Plan> plans, const Load& load, const MachineModel& machine,
                   const HostSymmetry* symmetry = nullptr);

// No execution is faster than the busiest resource, or than the longest chain of steps that wait
// for each other; `latencies` is the length of that chain if bytes took no time.
struct CostBounds {
  double resource = 0, path = 0, latencies = 0;
  double posts = 0;    // of a thread or a host's cores: the cost of messages whatever their size
  BusyByLimit busy{};  // the resources; the busiest is `resource`
  double arrival = 0;  // where that is one of the network: its shortest latency
  // Segments shorten the chain of waiting steps, but not the work of the resources.
  double lower(int segments = 1) const { return std::max({resource, latencies, path / segments}); }
  // What the busiest resource did last has arrived.
  double done() const { return resource + arrival; }
  // Exact for a chain of whole messages, and for ranks that are busy all the time.
  double estimate() const { return path > resource + latencies ? path : resource + latencies; }
  // What the resources have to do in so many segments, of which each has messages of its own; they
  // cost cores time, and what else is busy nothing.
  double busy_in(int segments) const {
    return std::max(resource, busy[static_cast<size_t>(Limit::core)] + (segments - 1) * posts);
  }
  // For many segments, from the bounds of one: each has the path of its bytes, and follows the one
  // before as soon as the busiest resource allows. With one segment the same as estimate().
  double estimate(int segments) const;
  Busiest busiest(int segments) const;
};
// Throws Error(invalid_argument) where steps wait for each other in a cycle.
CostBounds bounds_of(const CostModel& model, const MachineModel& machine);

Prediction predict(const CostModel& model, const Load& load, const MachineModel& machine);

}  // namespace ringwood

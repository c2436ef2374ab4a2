// Schedules bound to sizes and to a Fabric's seconds: what cost.cc simulates. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/cost.h"
#include "collectives/graph.h"

namespace ringwood {

// Seconds of a core, and of its host's memory, for each byte.
struct PerByte {
  double core = 0, memory = 0;
};

struct CostMessage {
  int32_t from = 0, to = 0;                // ranks
  int32_t send_step = -1, recv_step = -1;  // -1: that end is missing
  int32_t next = -1;                       // after this one on the same link and direction
  bool between_hosts = false, reduces = false;
  int parts = 1;  // messages that the plan makes of it
  double bytes = 0;
};

struct CostRank {
  const Schedule* schedule = nullptr;
  Graph graph;
  std::vector<double> bytes;      // by step
  std::vector<int32_t> message;  // by step: its message, -1 = local or empty
  PerByte copies, reduces;       // in this rank's working set
  int on_host = 1;               // ranks of its host, this one included
};

struct CostModel {
  std::vector<CostRank> ranks;
  std::vector<CostMessage> messages;
  std::vector<int32_t> heads;  // the first message of each link and direction
  int hosts = 1;
  double agreed = 0;  // from when on receives may be posted
};
CostModel model_of(const std::vector<Schedule>& schedules, const Load& load,
                   const Fabric& fabric);

// Seconds until a message's arrival is noticed, from the end of its writing.
double latency_to(const CostModel& model, const Fabric& fabric, int rank, bool between_hosts);

}  // namespace ringwood

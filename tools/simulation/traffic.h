// What all ranks of a group do in one operation, in the least memory: the messages and steps of
// their plans with their costs, as CostModel has them for a few ranks (cost/cost_model.h).
//
// Plans are made by the passes, one rank at a time, and forgotten; what is alike is kept once: the
// graph of steps (many ranks have the same), and a message's costs. So a message takes 24 bytes and
// a step 4. Nothing is known about algorithms. Plain values; immutable once bound.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/tuner/cost/cost_model.h"
#include "tools/simulation/network.h"

namespace ringwood {

// What ranks have in common: their steps, without sizes, and which waits for which.
struct StepShape {
  std::vector<StepKind> kinds;
  std::vector<uint8_t> early;  // BoundStep::early
  Graph graph;
};

struct TrafficRank {
  int32_t shape = 0;
  int32_t on_cores = 1;     // ranks that share its cores
  uint32_t first_item = 0;  // of its steps in Traffic::items
  PerByte own_block;        // seconds; 0: it has none
};

struct TrafficMessage {
  int32_t from = 0, to = 0;                // ranks
  int32_t send_step = -1, recv_step = -1;  // of them
  int32_t next = -1;   // the message after this one on the same link and direction
  int32_t price = -1;  // of Traffic::prices
};

struct Traffic {
  std::vector<StepShape> shapes;
  std::vector<TrafficRank> ranks;
  // Of each step: its message, or -1 - the number of what it costs in `local`.
  std::vector<int32_t> items;
  std::vector<TrafficMessage> messages;
  std::vector<int32_t> heads;       // the first message of each link and direction
  std::vector<CostMessage> prices;  // without ranks and steps
  std::vector<PerByte> local;       // seconds of a core and of its host's memory; [0] is nothing
  double agreed = 0, agreeing = 0;  // as in CostModel

  const StepShape& shape(int rank) const { return shapes[ranks[rank].shape]; }
};

inline constexpr size_t kMaxMessages = 20'000'000;

struct TrafficRequest {
  std::function<Schedule(int rank)> build;  // the same each time; by any thread
  int n = 1;
  int segments = 1;
  Load load;  // private buffers: zero_copy is not set
};

// `progress` is called with the number of ranks that are bound, now and then; may be empty. Throws
// Error(invalid_argument) where there are more than kMaxMessages, or one has only one end.
Traffic bind_traffic(const TrafficRequest& request, const MachineModel& machine,
                     const std::function<void(int)>& progress = {});

}  // namespace ringwood

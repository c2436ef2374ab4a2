// Where the schedules of `ringwood schedule` come from: a row of the table of algorithms, or a
// text.
#pragma once

#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/shared_schedules.h"

namespace ringwood::tools {

// As they are typed.
struct TypedSchedule {
  std::string collective, algorithm, file, hosts;
  int ranks = 0, root = 0, segments = 1;  // ranks 0: as many as the hosts or the text have, or 4
  bool json = false;
};

struct Schedules {
  Collective collective = Collective::barrier;
  std::vector<Schedule> all;          // in one segment
  std::vector<int> hosts;             // by rank; empty: not said
  const AlgorithmRow* row = nullptr;  // null: from a text

  int n() const { return static_cast<int>(all.size()); }
  // "ring", or "a text".
  std::string name() const { return row ? row->name : "a text"; }
};

// Throws Error(invalid_argument) for what does not fit together.
Schedules read_schedules(const TypedSchedule& typed);

// Each distinct list of steps once, in the segments that are typed: for many ranks.
struct ManySchedules {
  Collective collective = Collective::barrier;
  SharedSchedules all;
  const AlgorithmRow* row = nullptr;  // null: from a text

  int n() const { return all.size(); }
};
// Throws as read_schedules() does.
ManySchedules read_many_schedules(const TypedSchedule& typed);
// Refuses a row of which all ranks together have more steps, before they are built.
void require_few_steps(const TypedSchedule& typed, size_t most, const std::string& remedy);

}  // namespace ringwood::tools

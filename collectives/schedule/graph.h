// Which steps must wait for which: derived from a schedule, never written by its author.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "collectives/schedule/group_schedules.h"
#include "collectives/schedule/schedule.h"

namespace ringwood {

// Compressed: the successors of step i are successor[offset[i] .. offset[i+1]), ascending,
// without duplicates. Transitively implied write-write and read edges may be omitted;
// reachability is exact.
struct Graph {
  std::vector<int32_t> offset;
  std::vector<int32_t> successor;
  std::vector<int32_t> predecessors;  // number of direct predecessors of each step
};
Graph derive(const ScheduleView& schedule);
inline Graph derive(const Schedule& schedule) { return derive(ScheduleView(schedule)); }

// Those of all ranks, without their predecessors: one for each list, because all ranks of a list
// have the same. They lie in few large pieces of memory, which are freed together.
class Graphs {
 public:
  struct View {
    std::span<const int32_t> offset, successor;  // as in Graph
  };
  explicit Graphs(GroupSchedules all);
  const View& operator[](int rank) const { return graphs_[all_.list(rank)]; }

 private:
  std::span<const int32_t> stored(const std::vector<int32_t>& numbers);

  GroupSchedules all_;
  std::pmr::monotonic_buffer_resource memory_;
  std::vector<View> graphs_;  // by list
};

}  // namespace ringwood

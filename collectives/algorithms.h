// THE table of algorithms. To add one: a file in algorithms/, a row in algorithms.cc, a line in
// meson.build; every suite, bench and tool picks it up by its row.
#pragma once

#include <span>

#include "collectives/schedule.h"

namespace ringwood {

// All that an algorithm may know. Pure: equal Where, equal Schedule.
struct Where {
  int rank = 0;
  int n = 1;
  int root = 0;  // collectives with a root
};

struct AlgorithmRow {
  Collective collective;
  const char* name;         // "ring"; unique within its collective
  const char* description;  // one line: rounds, bytes per rank, where it wins
  Schedule (*build)(const Where& where);
  bool (*accepts)(int n);  // which group sizes
};
std::span<const AlgorithmRow> algorithm_table();

// The row, or null.
const AlgorithmRow* find_algorithm(Collective collective, std::string_view name);

// The functions of the table; each stands in algorithms/<name>.cc under the prose of its cost.
Schedule ring_all_reduce(const Where& where);
Schedule ring_all_gather(const Where& where);
Schedule ring_reduce_scatter(const Where& where);
Schedule direct_all_reduce(const Where& where);    // two steps: reduce-scatter, all-gather
Schedule one_shot_all_reduce(const Where& where);  // one step: all to all, reduced in rank order
Schedule direct_all_gather(const Where& where);
Schedule direct_reduce_scatter(const Where& where);
Schedule double_tree_all_reduce(const Where& where);
Schedule halving_doubling_all_reduce(const Where& where);
Schedule binomial_broadcast(const Where& where);
Schedule binomial_reduce(const Where& where);
Schedule chain_broadcast(const Where& where);  // pipelined by lanes
Schedule chain_reduce(const Where& where);
Schedule pairwise_all_to_all(const Where& where);
Schedule linear_gather(const Where& where);
Schedule linear_scatter(const Where& where);
Schedule dissemination_barrier(const Where& where);

}  // namespace ringwood

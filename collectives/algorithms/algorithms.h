// THE table of algorithms. To add one: a file in algorithms/, a row in algorithms.cc, a line in
// meson.build; every suite, bench and tool picks it up by its row.
#pragma once

#include <span>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// All that an algorithm may know. Pure: equal Where, equal Schedule.
struct Where {
  int rank = 0;
  int n = 1;
  int root = 0;  // collectives with a root
  // Which host each rank is on: equal numbers, equal host. Empty: all on one. The caller's memory.
  std::span<const int> host = {};
  // Likewise its memory node (NUMA); no node is on two hosts. Empty: each host is one.
  std::span<const int> node = {};
};

// Blocks of which sizes a row of a block-wise collective is for.
enum class BlockSizes {
  any,      // good whatever they are
  similar,  // right whatever they are, but a round lasts as long as the largest block in it
  equal     // of one size only: it keeps a block where there is room for another
};

struct AlgorithmRow {
  Collective collective;
  const char* name;         // "ring"; unique within its collective
  const char* description;  // one line: rounds, bytes per rank, where it wins
  Schedule (*build)(const Where& where);
  // Which groups; does not look at the rank, so that all ranks agree.
  bool (*fits)(const Where& where);
  // Every sum is ((x0 + x1) + x2) + ... by rank: equal bits whichever such row, root, placement or
  // segments are used (reduces_in_rank_order() in verify.h proves it).
  bool rank_order = false;
  BlockSizes sizes = BlockSizes::any;

  bool accepts(const Where& where) const { return fits(where); }
  bool accepts(int n) const { return fits(Where{0, n, 0, {}}); }  // on one host
};
std::span<const AlgorithmRow> algorithm_table();

// The row, or null.
const AlgorithmRow* find_algorithm(Collective collective, std::string_view name);

// Every rank's schedule; where.rank is not looked at. Precondition: the row accepts it.
std::vector<Schedule> build_all(const AlgorithmRow& row, const Where& where);

// The functions of the table; each stands in algorithms/<name>.cc under the prose of its cost.
Schedule exchange_all_reduce(const Where& where);  // two ranks
Schedule one_shot_all_reduce(const Where& where);  // one step: all to all, reduced in rank order
Schedule recursive_doubling_all_reduce(const Where& where);
Schedule swing_latency_all_reduce(const Where& where);  // 2^k ranks
Schedule bine_all_reduce(const Where& where);
Schedule direct_all_reduce(const Where& where);  // two steps: reduce-scatter, all-gather
Schedule rank_order_all_reduce(const Where& where);
Schedule halving_doubling_all_reduce(const Where& where);
Schedule mixed_radix_all_reduce(const Where& where);
Schedule swing_all_reduce(const Where& where);  // 2^k ranks
Schedule double_tree_all_reduce(const Where& where);
Schedule ring_all_reduce(const Where& where);
Schedule bidirectional_ring_all_reduce(const Where& where);  // three ranks and more
Schedule hierarchical_all_reduce(const Where& where);
Schedule hierarchical_nodes_all_reduce(const Where& where);
Schedule hierarchical_leaders_all_reduce(const Where& where);
Schedule linear_broadcast(const Where& where);
Schedule binomial_broadcast(const Where& where);
Schedule knomial_broadcast(const Where& where);
Schedule bine_broadcast(const Where& where);
Schedule chain_broadcast(const Where& where);  // pipelined by segments
Schedule double_tree_broadcast(const Where& where);
Schedule hierarchical_broadcast(const Where& where);
Schedule linear_reduce(const Where& where);
Schedule rank_order_reduce(const Where& where);
Schedule binomial_reduce(const Where& where);
Schedule knomial_reduce(const Where& where);
Schedule bine_reduce(const Where& where);
Schedule chain_reduce(const Where& where);
Schedule double_tree_reduce(const Where& where);
Schedule hierarchical_reduce(const Where& where);
Schedule direct_all_gather(const Where& where);
Schedule bruck_all_gather(const Where& where);
Schedule pat_all_gather(const Where& where);
Schedule ring_all_gather(const Where& where);
Schedule hierarchical_all_gather(const Where& where);
Schedule direct_reduce_scatter(const Where& where);
Schedule rank_order_reduce_scatter(const Where& where);
Schedule pat_reduce_scatter(const Where& where);
Schedule ring_reduce_scatter(const Where& where);
Schedule hierarchical_reduce_scatter(const Where& where);
Schedule pairwise_all_to_all(const Where& where);
Schedule bruck_all_to_all(const Where& where);
Schedule hierarchical_all_to_all(const Where& where);
Schedule linear_gather(const Where& where);
Schedule linear_scatter(const Where& where);
Schedule dissemination_barrier(const Where& where);

// Whether mixed radix differs from `direct`.
bool has_several_factors(int n);

}  // namespace ringwood

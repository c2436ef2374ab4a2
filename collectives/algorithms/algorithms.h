// THE table of algorithms. To add one: a file in algorithms/, its declaration below, a row in
// algorithms.cc, a line in meson.build. Every suite, bench and tool uses it through its row.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

struct Hosts;

// By rank: the number of its host. May carry what hosts_of() makes of it (hosts.h), for who builds
// the schedules of many ranks. Memory of the caller.
struct Places : std::span<const int> {
  Places() = default;
  Places(std::span<const int> numbers, const Hosts* made = nullptr)
      : std::span<const int>(numbers), hosts(made) {}
  Places(const std::vector<int>& numbers, const Hosts* made = nullptr)
      : std::span<const int>(numbers), hosts(made) {}
  const Hosts* hosts = nullptr;  // null: made where an algorithm needs it
};

// Everything that an algorithm may depend on. Pure: equal Where, equal Schedule.
struct Where {
  int rank = 0;
  int n = 1;
  int root = 0;  // collectives with a root
  // The host of each rank: equal numbers, equal host. Empty: all on one host.
  Places host = {};
  // The memory node (NUMA) of each rank, likewise; no node is on two hosts. Empty: each
  // host is one.
  Places node = {};
};

// The block sizes that a row of a block-wise collective is for.
enum class BlockSizes {
  any,      // good for all sizes
  similar,  // correct for all sizes, but a round lasts as long as its largest block
  equal     // of one size only: it stores a block where there is room for another
};

struct AlgorithmRow {
  Collective collective;
  const char* name;         // "ring"; unique within its collective
  const char* description;  // one line: rounds, bytes per rank, where it wins
  Schedule (*build)(const Where& where);
  // The groups that it accepts; does not read the rank, so that all ranks agree.
  bool (*fits)(const Where& where);
  // Every sum is ((x0 + x1) + x2) + ... by rank: the bits are the same for every such row, root,
  // placement or number of segments (proved by reduces_in_rank_order() in verify.h).
  bool rank_order = false;
  BlockSizes sizes = BlockSizes::any;

  bool accepts(const Where& where) const { return fits(where); }
  bool accepts(int n) const { return fits(Where{0, n, 0, {}}); }  // on one host
};
std::span<const AlgorithmRow> algorithm_table();

// The row, or null.
const AlgorithmRow* find_algorithm(Collective collective, std::string_view name);

// Every rank's schedule; where.rank is ignored. Precondition: the row accepts the group.
std::vector<Schedule> build_all(const AlgorithmRow& row, const Where& where);

// The functions of the table; each is in algorithms/<name>.cc, with its cost.
Schedule exchange_all_reduce(const Where& where);  // two ranks
Schedule one_shot_all_reduce(const Where& where);  // one step: all to all, reduced in rank order
Schedule recursive_doubling_all_reduce(const Where& where);
Schedule swing_latency_all_reduce(const Where& where);  // 2^k ranks
Schedule bine_all_reduce(const Where& where);
Schedule direct_all_reduce(const Where& where);  // two steps: reduce-scatter, all-gather
Schedule rank_order_all_reduce(const Where& where);
Schedule halving_doubling_all_reduce(const Where& where);
Schedule mixed_radix_all_reduce(const Where& where);
Schedule recursive_multiplying_all_reduce(const Where& where);
Schedule swing_all_reduce(const Where& where);  // 2^k ranks
Schedule double_tree_all_reduce(const Where& where);
Schedule ring_all_reduce(const Where& where);
Schedule bidirectional_ring_all_reduce(const Where& where);  // three ranks and more
Schedule hierarchical_all_reduce(const Where& where);
Schedule hierarchical_direct_all_reduce(const Where& where);
Schedule hierarchical_nodes_all_reduce(const Where& where);
Schedule hierarchical_leaders_all_reduce(const Where& where);
Schedule linear_broadcast(const Where& where);
Schedule binomial_broadcast(const Where& where);
Schedule knomial_broadcast(const Where& where);
Schedule bine_broadcast(const Where& where);
Schedule chain_broadcast(const Where& where);  // pipelined by segments
Schedule double_tree_broadcast(const Where& where);
Schedule hierarchical_broadcast(const Where& where);
Schedule hierarchical_knomial_broadcast(const Where& where);
Schedule hierarchical_striped_broadcast(const Where& where);
Schedule linear_reduce(const Where& where);
Schedule rank_order_reduce(const Where& where);
Schedule binomial_reduce(const Where& where);
Schedule knomial_reduce(const Where& where);
Schedule bine_reduce(const Where& where);
Schedule chain_reduce(const Where& where);
Schedule double_tree_reduce(const Where& where);
Schedule hierarchical_reduce(const Where& where);
Schedule hierarchical_knomial_reduce(const Where& where);
Schedule hierarchical_striped_reduce(const Where& where);
Schedule direct_all_gather(const Where& where);
Schedule bruck_all_gather(const Where& where);
Schedule pat_all_gather(const Where& where);
Schedule ring_all_gather(const Where& where);
Schedule hierarchical_all_gather(const Where& where);
Schedule hierarchical_pat_all_gather(const Where& where);   // hosts of one size
Schedule hierarchical_ring_all_gather(const Where& where);  // hosts of one size
Schedule hierarchical_leaders_all_gather(const Where& where);
Schedule direct_reduce_scatter(const Where& where);
Schedule rank_order_reduce_scatter(const Where& where);
Schedule pat_reduce_scatter(const Where& where);
Schedule ring_reduce_scatter(const Where& where);
Schedule hierarchical_reduce_scatter(const Where& where);
Schedule hierarchical_pat_reduce_scatter(const Where& where);   // hosts of one size
Schedule hierarchical_ring_reduce_scatter(const Where& where);  // hosts of one size
Schedule hierarchical_leaders_reduce_scatter(const Where& where);
Schedule pairwise_all_to_all(const Where& where);
Schedule bruck_all_to_all(const Where& where);
Schedule hierarchical_all_to_all(const Where& where);
Schedule hierarchical_leaders_all_to_all(const Where& where);  // hosts of one size
Schedule linear_gather(const Where& where);
Schedule linear_scatter(const Where& where);
Schedule dissemination_barrier(const Where& where);

// Whether mixed radix differs from `direct`.
bool has_several_factors(int n);

}  // namespace ringwood

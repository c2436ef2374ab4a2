#include "collectives/algorithms/algorithms.h"

#include "collectives/algorithms/hosts.h"
#include "transports/eager_channel.h"

namespace ringwood {
namespace {

bool any(const Where& where) { return where.n >= 1; }
bool pair(const Where& where) { return where.n == 2; }
bool beyond_a_pair(const Where& where) { return where.n > 2; }
bool power_of_two(const Where& where) { return (where.n & (where.n - 1)) == 0; }
bool nodes_of_one_host(const Where& where) {
  return has_nodes(where) && hosts_of(where).count() == 1;
}
// Several ranks on each of several hosts, equally many.
bool alike_hosts(const Where& where) { return has_hierarchy(where) && hosts_of(where).alike(); }
// A rank of each host leads others; of a single host where they are so many that it may be crowded.
bool has_leaders(const Where& where) {
  const bool few = where.n <= static_cast<int>(kMaxEagerRanks);  // which have slots for that
  return has_hierarchy(where) || (!few && hosts_of(where).count() == 1);
}
bool composite(const Where& where) { return has_several_factors(where.n); }

constexpr bool kRankOrder = true;

// A hierarchical row with memory nodes as hosts.
template <Schedule (*Build)(const Where&)>
Schedule of_nodes(const Where& where) {
  return Build(by_node(where));
}

// The notation of the descriptions: n ranks, on H hosts of k; S bytes of the user's buffer, B bytes
// of one rank's block. Among rows of equal cost the first is chosen (choose.h), so the simplest
// come first.
constexpr AlgorithmRow kTable[] = {
    {Collective::all_reduce, "direct",
     "2 rounds, 2 (n-1)/n S bytes: every rank reaches every other at full speed", direct_all_reduce,
     any},
    {Collective::all_reduce, "exchange",
     "1 round, S bytes, two ranks: as few bytes as any, in one step", exchange_all_reduce, pair,
     kRankOrder},
    {Collective::all_reduce, "one_shot",
     "1 round, (n-1) S bytes: tiny messages, where latency is all", one_shot_all_reduce, any,
     kRankOrder},
    {Collective::all_reduce, "rank_order",
     "2 rounds, 2 (n-1)/n S bytes, sums in rank order: reproducible, any size",
     rank_order_all_reduce, any, kRankOrder},
    {Collective::all_reduce, "halving_doubling",
     "2 log2(n) rounds, 2 (n-1)/n S bytes: middle sizes, any n", halving_doubling_all_reduce, any},
    {Collective::all_reduce, "mixed_radix",
     "2 rounds per factor of n, 2 (n-1)/n S bytes: middle sizes, composite n",
     mixed_radix_all_reduce, composite},
    {Collective::all_reduce, "ring",
     "2 (n-1) rounds, 2 (n-1)/n S bytes, two neighbours: large messages on slow networks",
     ring_all_reduce, any},
    {Collective::all_reduce, "bidirectional_ring",
     "2 (n-1) rounds, 2 (n-1)/n S bytes, half to each neighbour: large messages, a port for each",
     bidirectional_ring_all_reduce, beyond_a_pair},
    {Collective::all_reduce, "double_tree",
     "2 log2(n)+2 rounds, 2 S bytes: many ranks, pipelined by segments", double_tree_all_reduce,
     any},
    {Collective::all_reduce, "recursive_doubling",
     "log2(n) rounds (one more if n is not 2^k), S log2(n) bytes: small messages, 8 ranks and more",
     recursive_doubling_all_reduce, any},
    {Collective::all_reduce, "recursive_multiplying",
     "1 round per factor of n, 3 S log4(n) bytes: small messages, many ranks of a host",
     recursive_multiplying_all_reduce, composite},
    {Collective::all_reduce, "swing_latency",
     "log2(n) rounds, S log2(n) bytes, near peers: small messages, 2^k ranks on a torus or ring",
     swing_latency_all_reduce, power_of_two},
    {Collective::all_reduce, "swing",
     "2 log2(n) rounds, 2 (n-1)/n S bytes, near peers: middle sizes, 2^k ranks on a torus or ring",
     swing_all_reduce, power_of_two},
    {Collective::all_reduce, "bine",
     "2 log2(n) rounds, up to S log2(n) bytes, near peers: small messages, shared far links",
     bine_all_reduce, any},
    {Collective::all_reduce, "hierarchical",
     "2 rounds in hosts, few across, 2 (H-1)/H S bytes leave a host: several hosts",
     hierarchical_all_reduce, has_hierarchy},
    {Collective::all_reduce, "hierarchical_direct",
     "2 rounds in hosts, 2 across, 2 (H-1)/H S bytes leave a host: sums in 16 bits, several hosts",
     hierarchical_direct_all_reduce, has_hierarchy},
    {Collective::all_reduce, "hierarchical_nodes",
     "as hierarchical, of memory nodes on one host or several: several nodes on a host",
     hierarchical_nodes_all_reduce, has_nodes},
    {Collective::all_reduce, "hierarchical_leaders",
     "2 rounds in hosts, log2(H) across, one rank per host: small messages, hosts or few cores",
     hierarchical_leaders_all_reduce, has_leaders},
    {Collective::reduce, "linear", "1 round, S bytes, in rank order: tiny messages, few ranks",
     linear_reduce, any, kRankOrder},
    {Collective::reduce, "rank_order",
     "2 rounds, S bytes, sums in rank order: reproducible, large messages", rank_order_reduce, any,
     kRankOrder},
    {Collective::reduce, "binomial", "log2(n) rounds, S bytes: small messages", binomial_reduce,
     any},
    {Collective::reduce, "knomial",
     "log4(n) rounds, S bytes: small messages, links that carry several at once", knomial_reduce,
     any},
    {Collective::reduce, "bine",
     "log2(n) rounds, S bytes, near peers: small messages, shared far links", bine_reduce, any},
    {Collective::reduce, "chain", "n-1 rounds, S bytes: large messages, pipelined by segments",
     chain_reduce, any},
    {Collective::reduce, "double_tree",
     "log2(n)+2 rounds, S bytes: large messages, many ranks, pipelined by segments",
     double_tree_reduce, any},
    {Collective::reduce, "hierarchical",
     "log2(H) + log4(k) rounds, S bytes leave a host: small messages, several hosts",
     hierarchical_reduce, has_hierarchy},
    {Collective::reduce, "hierarchical_knomial",
     "log4(H) rounds across, 1 inside, S bytes leave a host: small messages, many hosts",
     hierarchical_knomial_reduce, has_hierarchy},
    {Collective::reduce, "hierarchical_striped",
     "log2(H)+4 rounds, S bytes leave a host, by all of its ranks: large messages, several rails",
     hierarchical_striped_reduce, has_hierarchy},
    {Collective::reduce, "hierarchical_nodes",
     "log2(N) + log4(k) rounds, S bytes leave a node: one host of N memory nodes",
     of_nodes<hierarchical_reduce>, nodes_of_one_host},
    {Collective::broadcast, "linear",
     "1 round, (n-1) S bytes from the root: shared memory, few ranks", linear_broadcast, any},
    {Collective::broadcast, "binomial",
     "log2(n) rounds, S log2(n) bytes from the root: small messages", binomial_broadcast, any},
    {Collective::broadcast, "knomial",
     "log4(n) rounds, 3 S log4(n) bytes from the root: small messages, links that carry several",
     knomial_broadcast, any},
    {Collective::broadcast, "bine",
     "log2(n) rounds, S log2(n) bytes from the root, near peers: small messages, shared far links",
     bine_broadcast, any},
    {Collective::broadcast, "chain", "n-1 rounds, S bytes: large messages, pipelined by segments",
     chain_broadcast, any},
    {Collective::broadcast, "double_tree",
     "log2(n)+2 rounds, S bytes: large messages, many ranks, pipelined by segments",
     double_tree_broadcast, any},
    {Collective::broadcast, "hierarchical",
     "log2(H) + log4(k) rounds, S bytes enter a host: small messages, several hosts",
     hierarchical_broadcast, has_hierarchy},
    {Collective::broadcast, "hierarchical_knomial",
     "log4(H) rounds across, 1 inside, S bytes enter a host: small messages, many hosts",
     hierarchical_knomial_broadcast, has_hierarchy},
    {Collective::broadcast, "hierarchical_striped",
     "log2(H)+4 rounds, S bytes enter a host, by all of its ranks: large messages, several rails",
     hierarchical_striped_broadcast, has_hierarchy},
    {Collective::broadcast, "hierarchical_nodes",
     "log2(N) + log4(k) rounds, S bytes enter a node: one host of N memory nodes",
     of_nodes<hierarchical_broadcast>, nodes_of_one_host},
    {Collective::all_gather, "direct",
     "1 round, (n-1) B bytes: every rank reaches every other at full speed", direct_all_gather,
     any},
    {Collective::all_gather, "bruck",
     "log2(n) rounds, (n-1) B bytes: small blocks, 8 ranks and more", bruck_all_gather, any,
     !kRankOrder, BlockSizes::similar},
    {Collective::all_gather, "pat",
     "log2(n) rounds, (n-1) B bytes, most to near peers: small and middle blocks, many ranks",
     pat_all_gather, any, !kRankOrder, BlockSizes::similar},
    {Collective::all_gather, "ring",
     "n-1 rounds, (n-1) B bytes, two neighbours: large blocks on slow networks", ring_all_gather,
     any},
    {Collective::all_gather, "hierarchical",
     "2 rounds, (n-k) B bytes enter a host of k: several hosts", hierarchical_all_gather,
     has_hierarchy},
    {Collective::all_gather, "hierarchical_pat",
     "log2(H) rounds across by index, 1 inside, (n-k) B bytes enter a host: small blocks, many "
     "hosts of one size",
     hierarchical_pat_all_gather, alike_hosts, !kRankOrder, BlockSizes::similar},
    {Collective::all_gather, "hierarchical_ring",
     "H-1 rounds across by index, 1 inside, (n-k) B bytes enter a host: large blocks, two partners "
     "across, hosts of one size",
     hierarchical_ring_all_gather, alike_hosts},
    {Collective::all_gather, "hierarchical_leaders",
     "2 rounds in hosts, log2(H) across, one rank per host: small blocks, hosts or few cores",
     hierarchical_leaders_all_gather, has_leaders, !kRankOrder, BlockSizes::similar},
    {Collective::all_gather, "hierarchical_nodes",
     "2 rounds, (n-k) B bytes enter a node of k: one host of N memory nodes",
     of_nodes<hierarchical_all_gather>, nodes_of_one_host},
    {Collective::gather, "linear", "1 round, B bytes from each rank to the root", linear_gather,
     any},
    {Collective::reduce_scatter, "direct",
     "1 round, (n-1) B bytes: every rank reaches every other at full speed", direct_reduce_scatter,
     any},
    {Collective::reduce_scatter, "rank_order",
     "1 round, (n-1) B bytes, sums in rank order: reproducible", rank_order_reduce_scatter, any,
     kRankOrder},
    {Collective::reduce_scatter, "pat",
     "log2(n) rounds, (n-1) B bytes, most to near peers: small and middle blocks, many ranks",
     pat_reduce_scatter, any, !kRankOrder, BlockSizes::similar},
    {Collective::reduce_scatter, "ring",
     "n-1 rounds, (n-1) B bytes, two neighbours: large blocks on slow networks",
     ring_reduce_scatter, any, !kRankOrder, BlockSizes::equal},
    {Collective::reduce_scatter, "hierarchical",
     "2 rounds, (n-k) B bytes leave a host of k: several hosts", hierarchical_reduce_scatter,
     has_hierarchy},
    {Collective::reduce_scatter, "hierarchical_pat",
     "1 round inside, log2(H) across by index, (n-k) B bytes leave a host: small blocks, many "
     "hosts of one size",
     hierarchical_pat_reduce_scatter, alike_hosts, !kRankOrder, BlockSizes::similar},
    {Collective::reduce_scatter, "hierarchical_ring",
     "1 round inside, H-1 across by index, (n-k) B bytes leave a host: large blocks, two partners "
     "across, hosts of one size",
     hierarchical_ring_reduce_scatter, alike_hosts, !kRankOrder, BlockSizes::equal},
    {Collective::reduce_scatter, "hierarchical_leaders",
     "2 rounds in hosts, log2(H) across, one rank per host: small blocks, hosts or few cores",
     hierarchical_leaders_reduce_scatter, has_leaders, !kRankOrder, BlockSizes::similar},
    {Collective::reduce_scatter, "hierarchical_nodes",
     "2 rounds, (n-k) B bytes leave a node of k: one host of N memory nodes",
     of_nodes<hierarchical_reduce_scatter>, nodes_of_one_host},
    {Collective::scatter, "linear", "1 round, B bytes from the root to each rank", linear_scatter,
     any},
    {Collective::all_to_all, "pairwise", "1 round, (n-1) B bytes, n-1 exchanges posted at once",
     pairwise_all_to_all, any},
    {Collective::all_to_all, "bruck",
     "log2(n) rounds, n/2 log2(n) B bytes: small blocks of one size, many ranks", bruck_all_to_all,
     any, !kRankOrder, BlockSizes::equal},
    {Collective::all_to_all, "hierarchical",
     "1 round in hosts, 1 across of n/k-1 messages of k blocks: small blocks of one size, several "
     "hosts",
     hierarchical_all_to_all, has_hierarchy, !kRankOrder, BlockSizes::equal},
    {Collective::all_to_all, "hierarchical_leaders",
     "2 rounds in hosts, log2(H) across, one rank per host: tiny blocks of one size, hosts of one "
     "size",
     hierarchical_leaders_all_to_all, alike_hosts, !kRankOrder, BlockSizes::equal},
    // Every operation begins with it: a barrier is nothing more (after_agreement() in plan.h).
    {Collective::barrier, "dissemination", "log2(n) rounds of one byte", dissemination_barrier,
     any},
};

}  // namespace

std::span<const AlgorithmRow> algorithm_table() { return kTable; }

const AlgorithmRow* find_algorithm(Collective collective, std::string_view name) {
  for (const AlgorithmRow& row : kTable) {
    if (row.collective == collective && row.name == name) return &row;
  }
  return nullptr;
}

std::vector<Schedule> build_all(const AlgorithmRow& row, const Where& where) {
  const Hosts hosts = hosts_of(where), nodes = hosts_of(by_node(where));
  Where one = where;
  one.host.hosts = &hosts;
  one.node.hosts = &nodes;
  std::vector<Schedule> all;
  for (one.rank = 0; one.rank < where.n; ++one.rank) all.push_back(row.build(one));
  return all;
}

}  // namespace ringwood

#include "collectives/algorithms.h"

namespace ringwood {
namespace {

bool any(int n) { return n >= 1; }

// The notation of the descriptions: n ranks, S bytes of the user's buffer, B bytes of one rank's
// block.
constexpr AlgorithmRow kTable[] = {
    {Collective::all_reduce, "one_shot",
     "1 round, (n-1) S bytes: tiny messages, where latency is all", one_shot_all_reduce, any},
    {Collective::all_reduce, "direct",
     "2 rounds, 2 (n-1)/n S bytes: every rank reaches every other at full speed", direct_all_reduce,
     any},
    {Collective::all_reduce, "halving_doubling",
     "2 log2(n) rounds, 2 (n-1)/n S bytes: middle sizes, any n", halving_doubling_all_reduce, any},
    {Collective::all_reduce, "double_tree",
     "2 log2(n) rounds, 2 S bytes: many ranks, pipelined by lanes", double_tree_all_reduce, any},
    {Collective::all_reduce, "ring",
     "2 (n-1) rounds, 2 (n-1)/n S bytes, two neighbours: large messages on slow wires",
     ring_all_reduce, any},
    {Collective::reduce, "binomial", "log2(n) rounds, S bytes: small messages", binomial_reduce,
     any},
    {Collective::reduce, "chain", "n-1 rounds, S bytes: large messages, pipelined by lanes",
     chain_reduce, any},
    {Collective::broadcast, "binomial",
     "log2(n) rounds, S log2(n) bytes from the root: small messages", binomial_broadcast, any},
    {Collective::broadcast, "chain", "n-1 rounds, S bytes: large messages, pipelined by lanes",
     chain_broadcast, any},
    {Collective::all_gather, "direct",
     "1 round, (n-1) B bytes: every rank reaches every other at full speed", direct_all_gather,
     any},
    {Collective::all_gather, "ring",
     "n-1 rounds, (n-1) B bytes, two neighbours: large blocks on slow wires", ring_all_gather, any},
    {Collective::gather, "linear", "1 round, B bytes from each rank to the root", linear_gather,
     any},
    {Collective::reduce_scatter, "direct",
     "1 round, (n-1) B bytes: every rank reaches every other at full speed", direct_reduce_scatter,
     any},
    {Collective::reduce_scatter, "ring",
     "n-1 rounds, (n-1) B bytes, two neighbours: large blocks on slow wires", ring_reduce_scatter,
     any},
    {Collective::scatter, "linear", "1 round, B bytes from the root to each rank", linear_scatter,
     any},
    {Collective::all_to_all, "pairwise", "n-1 exchanges, all posted at once, (n-1) B bytes",
     pairwise_all_to_all, any},
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

}  // namespace ringwood

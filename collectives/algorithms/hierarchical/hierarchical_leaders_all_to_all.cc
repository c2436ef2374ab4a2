// All-to-all by hosts' leaders: each gathers the blocks of its host, and the leaders exchange them
// as Bruck's all-to-all does.
//
// H hosts of k:
//
//   all_to_all   n blocks to the leader; ceil(log2 H) rounds of about H/2 k^2 blocks across; those
//                for the host, k n, to each of its ranks, which takes its own n
//   cost         ceil(log2 H) (alpha + n/2 k B beta) across, 2 alpha + k^2 n B beta inside
//
// A host has log2 H messages out and as many in, where `hierarchical` has n - k, and its data goes
// the way of the agreement (leaders.h): blocks of a few bytes, such as the counts of a larger
// exchange. One rank of a host moves all of them, but none of them by itself: what it has for a
// host stays together, and each rank picks what is for it. Blocks must be of one size, and so must
// hosts, because those of other hosts pass through. Source: Bruck et al. (1997); Traff and Rougier
// (2014).
//
//   4 hosts x 2 ranks    inside   0 <- 1: its blocks for all
//                        across   0 -> 2: from 0 and 1, for hosts 1 and 3
//                                 0 -> 4: from 0 and 1, for host 2; from 2 and 3, for host 3
//                        inside   0 -> 1: the blocks for 0 and 1
#include "collectives/algorithms/hierarchical/leaders.h"

namespace ringwood {
namespace {

Span room_for(Schedule& s, int count) {
  const Span span{s.chunks + static_cast<int>(s.scratch.size()), count};
  for (int i = 0; i < count; ++i) s.add_scratch(0);
  return span;
}

// By distance of hosts, and then by index: the ranks to which blocks go, or from which they come.
std::vector<int> peers_of(const Leaders& leaders, bool from) {
  std::vector<int> peers;
  for (int distance = 0; distance < leaders.hosts.count(); ++distance)
    for (const int rank : leaders.hosts.ranks[leaders.at(from ? -distance : distance)])
      peers.push_back(rank);
  return peers;
}

// Of a leader, by distance: the first of the k^2 blocks that are here for the host there. In their
// order: by the rank from which they come, and by that to which they go.
using Blocks = std::vector<int>;

// `mine`: of this rank, for all others in their order.
Blocks gather(Schedule& s, const Leaders& leaders, Span mine) {
  const int hosts = leaders.hosts.count(), k = static_cast<int>(leaders.local.size());
  const Span all = room_for(s, hosts * k * k);
  for (int j = 0; j < k; ++j) {
    const Span blocks_of_one = j == 0 ? mine : room_for(s, mine.count);
    if (j > 0) s.recv(leaders.local[j], blocks_of_one);
    for (int distance = 0; distance < hosts; ++distance)
      s.copy({all.first + (distance * k + j) * k, k}, {blocks_of_one.first + distance * k, k});
  }
  Blocks blocks;
  for (int distance = 0; distance < hosts; ++distance)
    blocks.push_back(all.first + distance * k * k);
  return blocks;
}

void exchange_across(Schedule& s, const Leaders& leaders, Blocks& blocks) {
  const int hosts = leaders.hosts.count(), k = static_cast<int>(leaders.local.size());
  for (int hop = 1; hop < hosts; hop *= 2) {
    std::vector<int*> moving;
    for (int distance = hop; distance < hosts; ++distance)
      if (distance / hop % 2 == 1) moving.push_back(&blocks[distance]);
    const Span out = room_for(s, static_cast<int>(moving.size()) * k * k);
    const Span in = room_for(s, out.count);
    for (size_t i = 0; i < moving.size(); ++i) {
      const int at = static_cast<int>(i) * k * k;
      s.copy({out.first + at, k * k}, {*moving[i], k * k});
      *moving[i] = in.first + at;
    }
    s.send(leaders.leader_at(hop), out);
    s.recv(leaders.leader_at(-hop), in);
  }
}

}  // namespace

Schedule hierarchical_leaders_all_to_all(const Where& where) {
  const int n = where.n;
  const Leaders leaders(where);
  const int k = static_cast<int>(leaders.local.size());
  const std::vector<int> to = peers_of(leaders, false), from = peers_of(leaders, true);
  Schedule s{where.rank, n, 2 * n, {}, {}};
  const Span mine = room_for(s, n);
  for (int i = 0; i < n; ++i) s.copy({mine.first + i}, {to[i]});
  const Span of_host = room_for(s, n * k);
  if (leaders.leads) {
    Blocks blocks = gather(s, leaders, mine);
    exchange_across(s, leaders, blocks);
    for (size_t i = 0; i < blocks.size(); ++i)
      s.copy({of_host.first + static_cast<int>(i) * k * k, k * k}, {blocks[i], k * k});
    for (int j = 1; j < k; ++j) s.send(leaders.local[j], of_host);
  } else {
    s.send(leaders.local[0], mine);
    s.recv(leaders.local[0], of_host);
  }
  const int index = leaders.hosts.index[s.rank];
  for (int i = 0; i < n; ++i) s.copy({n + from[i]}, {of_host.first + i * k + index});
  return s;
}

}  // namespace ringwood

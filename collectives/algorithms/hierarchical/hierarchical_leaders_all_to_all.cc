// All-to-all by hosts' leaders: each gathers the blocks of its host, and the leaders exchange them
// as Bruck's all-to-all does.
//
// H hosts of k:
//
//   all_to_all   n blocks to the leader, ceil(log2 H) rounds of about H/2 k^2 blocks across, n
//                blocks to each rank of the host
//   cost         ceil(log2 H) (alpha + n/2 k B beta) across, 2 alpha + 2 k n B beta inside
//
// A host has log2 H messages out and as many in, where `hierarchical` has n - k, and its data goes
// the way of the agreement (leaders.h): blocks of a few bytes. Each is copied about 3 + log2(H)
// times, by one rank of the host. Blocks must be of one size, and so must hosts, because those of
// other hosts pass through. Source: Bruck et al. (1997); Traff and Rougier (2014).
//
//   4 hosts x 2 ranks    inside   0 <- 1: its blocks for all
//                        across   0 -> 2: from 0 and 1, for hosts 1 and 3
//                                 0 -> 4: from 0 and 1, for host 2; from 2 and 3, for host 2
//                        inside   0 -> 1: the blocks for it
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

// The first of the k blocks that are here for the host at a distance, by distance and by index of
// the rank they come from.
using Blocks = std::vector<std::vector<int>>;

void exchange_across(Schedule& s, const Leaders& leaders, Blocks& blocks) {
  const int count = leaders.hosts.count(), k = static_cast<int>(leaders.local.size());
  for (int hop = 1; hop < count; hop *= 2) {
    std::vector<int*> moving;
    for (int distance = hop; distance < count; ++distance)
      if (distance / hop % 2 == 1)
        for (int& first : blocks[distance]) moving.push_back(&first);
    const Span out = room_for(s, static_cast<int>(moving.size()) * k);
    const Span in = room_for(s, out.count);
    for (size_t i = 0; i < moving.size(); ++i) {
      const int at = static_cast<int>(i) * k;
      s.copy({out.first + at, k}, {*moving[i], k});
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
  const std::vector<int> to = peers_of(leaders, false), from = peers_of(leaders, true);
  Schedule s{where.rank, n, 2 * n, {}, {}};
  const Span mine = room_for(s, n);
  for (int i = 0; i < n; ++i) s.copy({mine.first + i}, {to[i]});
  const int k = static_cast<int>(leaders.local.size());
  if (!leaders.leads) {
    const Span in = room_for(s, n);
    s.send(leaders.local[0], mine);
    s.recv(leaders.local[0], in);
    for (int i = 0; i < n; ++i) s.copy({n + from[i]}, {in.first + i});
    return s;
  }
  Blocks blocks(leaders.hosts.ranks.size(), std::vector<int>(leaders.local.size()));
  for (int j = 0; j < k; ++j) {
    const Span room = j == 0 ? mine : room_for(s, n);
    if (j > 0) s.recv(leaders.local[j], room);
    for (size_t distance = 0; distance < blocks.size(); ++distance)
      blocks[distance][j] = room.first + static_cast<int>(distance) * k;
  }
  exchange_across(s, leaders, blocks);
  for (int q = 1; q < k; ++q) {
    const Span out = room_for(s, n);
    for (int i = 0; i < n; ++i) s.copy({out.first + i}, {blocks[i / k][i % k] + q});
    s.send(leaders.local[q], out);
  }
  for (int i = 0; i < n; ++i) s.copy({n + from[i]}, {blocks[i / k][i % k]});
  return s;
}

}  // namespace ringwood

// All-gather and reduce-scatter by hosts' leaders: one rank of each host speaks for it, and no
// other message crosses.
//
// H hosts of k:
//
//   all_gather       blocks to the leader, ceil(log2 H) rounds of recursive doubling or, where H is
//                    not 2^k, of Bruck's algorithm; all n blocks to each rank of the host
//   reduce_scatter   all n blocks to the leader, ceil(log2 H) rounds in which sums for the hosts
//                    whose distance has bit j move on by 2^j; one block to each rank of the host
//   cost             ceil(log2 H) alpha + (n-k) B beta across, 2 alpha + k n B beta inside
//
// A host has log2 H messages out and as many in, where `hierarchical` has (H-1) k and
// `hierarchical_pat` k log2 H, and its data goes the way of the agreement (leaders.h): small
// blocks. One rank moves all bytes, so larger ones are better shared. Hosts may be of unequal size.
// Source: MVAPICH's and HAN's designs with one leader; Bruck et al. (1997).
//
//   3 hosts x 2 ranks, all_gather    inside   0 <- 1          2 <- 3          4 <- 5
//                                    across   0 -> 2 -> 4 -> 0: 2 blocks, then again 2
//                                    inside   0 -> 1          2 -> 3          4 -> 5
#include <algorithm>
#include <numeric>

#include "collectives/algorithms/hierarchical/leaders.h"

namespace ringwood {
namespace {

// The distances to the hosts, so that those with a bit j are behind those without, among the
// multiples of 2^j, for each j.
std::vector<int> by_low_bits(int hosts) {
  std::vector<int> order = {0};
  for (int size = 1; size < hosts; size *= 2) {
    for (int& distance : order) distance *= 2;
    for (int i = 0; i < size; ++i) order.push_back(order[static_cast<size_t>(i)] + 1);
  }
  std::erase_if(order, [&](int distance) { return distance >= hosts; });
  return order;
}

int rounded_up(int x, int unit) { return (x + unit - 1) / unit; }

// Adds what a peer sends for the hosts at `to`, positions of the room. By host, so that all
// additions to a block are one accumulation (schedule/accumulations.h) and a message is one span
// nevertheless.
void add_from(Schedule& s, const Leaders& leaders, int peer, const RoomOfHosts& room,
              const std::vector<int>& to) {
  std::vector<int> hosts;
  for (const int position : to) hosts.push_back(room.host(position));
  const RoomOfHosts arrived(s, leaders.hosts, hosts);
  s.recv(peer, arrived.all());
  for (size_t i = 0; i < to.size(); ++i)
    s.reduce(room.of(to[i], to[i] + 1), arrived.of(static_cast<int>(i), static_cast<int>(i) + 1));
}

// The rounds across of a reduce-scatter. `distances`: by position of the room.
void add_across(Schedule& s, const Leaders& leaders, const RoomOfHosts& room,
                const std::vector<int>& distances) {
  const int count = leaders.hosts.count();
  for (int hop = 1; hop < count; hop *= 2) {
    const int kept = rounded_up(count, 2 * hop), end = rounded_up(count, hop);
    std::vector<int> to;
    for (int at = kept; at < end; ++at) {
      const auto target = std::ranges::find(distances, distances[at] - hop);
      to.push_back(static_cast<int>(target - distances.begin()));
    }
    s.send(leaders.leader_at(hop), room.of(kept, end));
    add_from(s, leaders, leaders.leader_at(-hop), room, to);
  }
}

// The rounds across of an all-gather, in which the room of a leader is filled.
void gather_across(Schedule& s, const Leaders& leaders, const RoomOfHosts& room) {
  const int count = leaders.hosts.count();
  for (int hop = 1; hop < count; hop *= 2) {
    const int more = std::min(hop, count - hop);
    const int first = leaders.paired() ? leaders.home & -hop : 0;
    const int other = leaders.paired() ? first ^ hop : hop;
    s.send(leaders.leader_at(hop), room.of(first, first + more));
    s.recv(leaders.leader_at(-hop), room.of(other, other + more));
  }
}

}  // namespace

Schedule hierarchical_leaders_all_gather(const Where& where) {
  const Leaders leaders(where);
  Schedule s{where.rank, where.n, where.n, {}, {}};
  std::vector<int> order;
  for (int i = 0; i < leaders.hosts.count(); ++i)
    order.push_back(leaders.paired() ? i : leaders.at(-i));
  const RoomOfHosts room(s, leaders.hosts, order);
  if (leaders.leads) {
    const int mine = leaders.paired() ? leaders.home : 0;
    const int first = room.of(mine, mine + 1).first;
    s.copy({first}, {s.rank});
    for (size_t j = 1; j < leaders.local.size(); ++j)
      s.recv(leaders.local[j], {first + static_cast<int>(j)});
    gather_across(s, leaders, room);
    for (size_t j = 1; j < leaders.local.size(); ++j) s.send(leaders.local[j], room.all());
  } else {
    s.send(leaders.local[0], {s.rank});
    s.recv(leaders.local[0], room.all());
  }
  room.each([&](int chunk, int rank) {
    if (rank != s.rank) s.copy({rank}, {chunk});
  });
  return s;
}

Schedule hierarchical_leaders_reduce_scatter(const Where& where) {
  const Leaders leaders(where);
  const int output = where.n;
  Schedule s{where.rank, where.n, where.n + 1, {}, {}};
  const std::vector<int> distances = by_low_bits(leaders.hosts.count());
  std::vector<int> order;
  for (const int distance : distances) order.push_back(leaders.at(distance));
  const RoomOfHosts room(s, leaders.hosts, order);
  int mine = 0;
  room.each([&](int chunk, int rank) {
    s.copy({chunk}, {rank});
    if (rank == s.rank) mine = chunk;
  });
  if (!leaders.leads) {
    s.send(leaders.local[0], room.all());
    s.recv(leaders.local[0], {mine});  // so that the input is read before the output is written
    s.copy({output}, {mine});
    return s;
  }
  std::vector<int> everywhere(order.size());
  std::iota(everywhere.begin(), everywhere.end(), 0);
  for (size_t j = 1; j < leaders.local.size(); ++j)
    add_from(s, leaders, leaders.local[j], room, everywhere);
  add_across(s, leaders, room, distances);
  for (size_t j = 1; j < leaders.local.size(); ++j)
    s.send(leaders.local[j], {mine + static_cast<int>(j)});
  s.copy({output}, {mine});
  return s;
}

}  // namespace ringwood

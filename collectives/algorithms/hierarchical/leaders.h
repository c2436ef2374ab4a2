// The leaders of hosts, their first ranks, for the rows by which each alone speaks for its host.
// Internal to algorithms/.
//
// Who sends to whom, and in which order, is as in the agreement by hosts (plan/agreement.h): ranks
// to their leader, leaders to those 1, 2, 4, ... hosts on, and leaders to their ranks. So a small
// operation's data comes right behind the fingerprints, and moves while the ranks agree: one way
// through the network instead of two. That needs all data that a leader receives to be in scratch.
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "collectives/algorithms/hosts.h"

namespace ringwood {

struct Leaders {
  explicit Leaders(const Where& where)
      : hosts(hosts_of(where)),
        home(hosts.host[where.rank]),
        local(hosts.ranks[home]),
        leads(local[0] == where.rank) {}

  // The host at this distance from home, which may be negative: by exclusive or where the number of
  // hosts is a power of two.
  int at(int distance) const {
    const int count = hosts.count();
    if (paired()) return home ^ std::abs(distance);
    return wrap(home + distance, count);
  }
  bool paired() const { return std::has_single_bit(hosts.ranks.size()); }
  int leader_at(int distance) const { return hosts.ranks[at(distance)][0]; }

  const Hosts hosts;
  const int home;
  const std::vector<int>& local;  // the ranks of this host; the first leads
  const bool leads;               // this rank
};

// Scratch for blocks of the ranks of some hosts, host by host in a given order.
class RoomOfHosts {
 public:
  RoomOfHosts(Schedule& s, const Hosts& hosts, const std::vector<int>& order)
      : hosts_(order), first_{s.chunks + static_cast<int>(s.scratch.size())} {
    for (const int h : order) {
      for (const int rank : hosts.ranks[h]) {
        s.add_scratch(rank);
        ranks_.push_back(rank);
      }
      first_.push_back(s.chunks + static_cast<int>(s.scratch.size()));
    }
  }
  int host(int position) const { return hosts_[static_cast<size_t>(position)]; }
  // Of the hosts at the positions [first, end) of the order.
  Span of(int first, int end) const {
    return {first_[static_cast<size_t>(first)],
            first_[static_cast<size_t>(end)] - first_[static_cast<size_t>(first)]};
  }
  Span all() const { return {first_.front(), static_cast<int>(ranks_.size())}; }
  // Calls block(chunk, rank) for each.
  template <class Do>
  void each(Do&& block) const {
    for (size_t i = 0; i < ranks_.size(); ++i)
      block(first_.front() + static_cast<int>(i), ranks_[i]);
  }

 private:
  std::vector<int> hosts_;  // by position
  std::vector<int> first_;  // chunk, by position; and the end
  std::vector<int> ranks_;  // by chunk
};

}  // namespace ringwood

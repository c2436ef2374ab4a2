// The agreement of a group: who tells whom, before an operation, what it calls (fingerprint.h).
//
// On one host, by digits (schedule/factors.h): in round i a rank tells the f_i - 1 that differ from
// it in digit i of n = f1 f2 ..., and hears them. 64 ranks have three rounds. So have ranks that
// share no memory, in rounds of two, where n is a power of two. Else by dissemination: in round k a
// rank tells the one 2^k after it, so that after log2(n) rounds each has heard of all others.
//
// On several hosts, of which one has several ranks, by the hosts' leaders, their first ranks. Each
// hears its host's ranks through shared memory, then the leaders disseminate, and then each tells
// its host. Of H hosts each has log2(H) messages out and as many in, instead of log2(n) of every
// rank; and log2(H) latencies of the network follow one another, instead of log2(n):
//
//     0 <- 1 2 3   4 <- 5 6 7      inside
//     0 <--------> 4               across
//     0 -> 1 2 3   4 -> 5 6 7      inside
//
// Inside a host the ranks are a tree, each with kAgreementFanOut others below it: rank i of the
// host is below rank (i - 1) / kAgreementFanOut. Where the number of hosts is a power of two the
// leaders exchange fingerprints with those 1, 2, 4, ... apart by exclusive or, as in recursive
// doubling: then the data of `hierarchical_leaders` has the links of the agreement.
//
// Crowded hosts: each round of messages waits for the turns of all ranks on a few cores. There all
// ranks are right below the first, also where there is one host only, which is two rounds.
//
// Early plans. Small data would wait for the agreement, and then for as many latencies again. A
// rank can receive at once what comes behind a peer's fingerprint: if that is the right one, the
// data is of the same call. Where all of a rank's data comes behind fingerprints, on the links of
// the agreement (`hierarchical_leaders` between hosts, `recursive_multiplying` on one,
// `recursive_doubling` where rounds are of two), it moves while the ranks agree: all is received
// and added in scratch, and only the copies to the user's buffer wait for the agreement. Each rank
// decides that for itself, since nothing that it sends changes.
//
// Pure; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "transports/eager_channel.h"

namespace ringwood {

// Ranks right below another. A host of up to 9 ranks has one level, and its leader 16 messages.
inline constexpr int kAgreementFanOut = 8;

// What decides how a group agrees.
struct GroupSize {
  int ranks = 0, hosts = 1;
  int on_host = 0;  // ranks of the host that has most
  int cores = 1;    // of a host

  // A turn takes 2.5 us of 32 ranks on 2 cores and 10 us of 128, whose memory is out of the cache
  // by then, and a message 0.05 us of its sender's and as much of its receiver's.
  bool crowded() const { return on_host >= 4 * cores; }
  // So few, of one host, agree in one round where they have eager slots (eager_channel.h).
  bool few() const { return hosts == 1 && ranks <= static_cast<int>(kMaxEagerRanks); }

  bool operator==(const GroupSize&) const = default;
};
// `hosts`: of each of the n ranks, numbered in the order of their first ranks; empty: all are on
// one.
GroupSize group_size(std::span<const int> hosts, int n, int cores);

// How a group agrees: by hosts; by the digits of numbers with these factors, if there are any; or
// by dissemination.
struct AgreementWay {
  bool by_hosts = false;
  std::vector<int> factors;
};
// `apart`: the ranks of one host share no memory.
AgreementWay agreement_way(const GroupSize& group, bool apart);
// The factors of n by whose digits ranks agree; empty: those do not. `memory`: all of them share
// it. Of a large prime number of ranks each would tell too many.
std::vector<int> agreement_factors(int n, bool memory);

// Rounds of a dissemination among n.
inline int dissemination_rounds(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }
// Levels below the leader of a host of k ranks.
inline int levels_below_leader(int k, bool crowded = false) {
  if (crowded) return k > 1 ? 1 : 0;
  int levels = 0;
  for (int last = k - 1; last > 0; last = (last - 1) / kAgreementFanOut) ++levels;
  return levels;
}

// The ranks that a rank tells and hears.
struct AgreementPlace {
  // Leaders: those that are told and heard in round k. Precondition: distance = 2^k, less than
  // their number.
  int told(int distance) const { return leaders[at(distance)]; }
  int heard(int distance) const { return leaders[at(-distance)]; }
  // All ranks that this one tells, and all whose fingerprints come to it.
  std::vector<int> all_told() const;
  std::vector<int> all_heard() const;

  std::vector<int> leaders;  // by host; empty: this rank is no leader
  int host = 0;              // of this rank
  int above = -1;            // inside the host; -1: this rank is the leader
  std::vector<int> below;

 private:
  std::vector<int> inside() const;  // the host's ranks that it tells and hears
  size_t at(int distance) const {
    const auto count = static_cast<int>(leaders.size());
    if (std::has_single_bit(leaders.size())) return static_cast<size_t>(host ^ std::abs(distance));
    return static_cast<size_t>((host + distance + count) % count);
  }
};
// `hosts` as in group_size(). Precondition: the group agrees by hosts.
AgreementPlace agreement_place(int rank, int n, std::span<const int> hosts, bool crowded = false);

}  // namespace ringwood

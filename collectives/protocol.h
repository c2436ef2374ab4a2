// The thresholds of how an operation is carried out, each with what set it. The plan acts by them
// and the cost model predicts by them, so they stand here once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/schedule.h"
#include "transports/clock.h"

namespace ringwood {

// One round: the openings go along with the data (plan.h).
//
// In shared memory as much as a letter holds (transports/mailbox.h); beyond, the data of a whole
// round no longer fits into what links hold on their way.
inline constexpr size_t kOneRoundBytes = 16 << 10;
// Where every message goes through sockets, a system call costs more than a copy of so many bytes,
// and what is to be added up is not copied.
inline constexpr size_t kCopiedBytesApart = 32 << 10, kAddedBytesApart = 64 << 10;
// Beyond, log2(n) openings are fewer than n - 1.
inline constexpr int kOneRoundRanks = 16;

// Below, the flags of a fused step cost more than the copies that it saves (fusion.h).
inline constexpr size_t kFusedBytes = 16 << 10;
// A fusion holds the operands of some peers back while it awaits the others'. In a schedule where
// those depend on these, that would be for ever: after so long the steps are carried out one by
// one. No row of the table is like that.
inline constexpr Duration kFusionPatience = std::chrono::milliseconds(50);

// Below, latency is all, and a wire format saves none (wire.h).
inline constexpr size_t kLeastEncoded = 16 << 10;

// Whether no two of n ranks share memory. `hosts`: of each rank, numbered in the order of their
// first ranks; empty: all are on one.
inline bool all_apart(std::span<const int> hosts, int n, bool loopback) {
  return loopback || (!hosts.empty() && *std::max_element(hosts.begin(), hosts.end()) == n - 1);
}

// Whether so many bytes, of the buffer or of a block, are few enough; the schedules, in one lane,
// decide the rest (fits_one_round() in plan.h).
inline bool small_for_one_round(Collective collective, size_t bytes, int n, bool apart) {
  const size_t most = !apart                ? kOneRoundBytes
                      : reduces(collective) ? kAddedBytesApart
                                            : kCopiedBytesApart;
  return bytes <= most && n <= kOneRoundRanks;
}

}  // namespace ringwood

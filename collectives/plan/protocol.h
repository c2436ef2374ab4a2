// The thresholds of how an operation is carried out, each with what set it. The passes that make a
// plan act by them and the cost model predicts by them, so they stand here once, as parameters of
// the machine model (machine_model.h): one rank's are everybody's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/schedule/schedule.h"
#include "transports/base/clock.h"

namespace ringwood {

struct ProtocolLimits {
  // One round: the openings go along with the data (plan.h).
  //
  // In shared memory as much as an eager slot holds (transports/eager_channel.h); beyond, the
  // data of a whole round no longer fits into what links hold on their way.
  size_t one_round_bytes = 16 << 10;
  // Where every message goes through sockets, a system call costs more than a copy of so many
  // bytes, and what is to be added up is not copied (2 ranks over tcp on one host: bench/networks).
  size_t one_round_copied_apart = 32 << 10, one_round_added_apart = 64 << 10;
  // Beyond, log2(n) openings are fewer than n - 1.
  size_t one_round_ranks = 16;

  // Below, the flags of a fused step cost more than the copies that it saves (fusion.h).
  size_t fused_bytes = 16 << 10;

  // A fusion holds the operands of some peers back while it awaits the others'. In a schedule where
  // those depend on these, that would be for ever: after so long the steps are carried out one by
  // one. No row of the table is like that.
  Duration fusion_patience = std::chrono::milliseconds(50);

  // Below, latency is all, and a wire format saves none (wire.h).
  size_t least_encoded = 16 << 10;

  // Published once (publish() in compose.h). Between them, one copy into scratch is cheaper than
  // one for each peer: smaller messages are never read in place, and the copy of larger ones does
  // not stay in the cache.
  size_t published_from = 64 << 10, published_up_to = 16 << 20;

  // Of a call in a group that is carried out together with others (calls/call_group.h); of all
  // blocks, where each rank has one. With 2 ranks, calls one by one against packed: 100 of 32 KiB
  // 426 against 348 us over shm and 1406 against 1134 over tcp; 20 of 64 KiB 120 against 126 and
  // 499 against 431; 20 of 128 KiB 219 against 280, and the same. 20 all_gathers of 8 KiB 20
  // against 13 and 154 against 31, of 32 KiB 33 against 32 and 182 against 85.
  size_t packed = 32 << 10;

  bool operator==(const ProtocolLimits&) const = default;
};

// Whether no two of n ranks share memory. `hosts`: of each rank, numbered in the order of their
// first ranks; empty: all are on one.
inline bool all_apart(std::span<const int> hosts, int n, bool loopback) {
  return loopback || (!hosts.empty() && *std::max_element(hosts.begin(), hosts.end()) == n - 1);
}

// Whether so many bytes, of the buffer or of a block, are few enough; the schedules, in one
// segment, decide the rest (fits_one_round() in plan.h).
inline bool small_for_one_round(const ProtocolLimits& limits, Collective collective, size_t bytes,
                                int n, bool apart) {
  const size_t most = !apart                ? limits.one_round_bytes
                      : reduces(collective) ? limits.one_round_added_apart
                                            : limits.one_round_copied_apart;
  return bytes <= most && static_cast<size_t>(n) <= limits.one_round_ranks;
}

}  // namespace ringwood

// The thresholds that decide how an operation is carried out, each with the measurement that set
// it. The passes that make a plan use them and the cost model predicts with them. They are
// parameters of the machine model (machine_model.h), so all ranks use the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "collectives/schedule/schedule.h"
#include "transports/base/clock.h"

namespace ringwood {

struct ProtocolLimits {
  // One round: the preambles travel together with the data (plan.h).
  //
  // In shared memory the limit is what fits into an eager slot (transports/eager_channel.h). Beyond
  // it, the data of a whole round no longer fits into the links' buffers.
  size_t one_round_bytes = 16 << 10;
  // Where every message goes through sockets, a system call costs more than a copy of this many
  // bytes, and data to be added is not copied at all (2 ranks over tcp on one host:
  // bench/networks).
  size_t one_round_copied_apart = 32 << 10, one_round_added_apart = 64 << 10;
  // Beyond it, log2(n) preambles are fewer than n - 1.
  size_t one_round_ranks = 16;

  // Up to it, data moves while the ranks agree, in scratch (agreement.h): two copies of so many
  // bytes cost less than the latency that they save.
  size_t early_bytes = (16 << 10) - 1;

  // Below it, the flags of a fused step cost more than the copies that it saves (fusion.h).
  size_t fused_bytes = 16 << 10;

  // A fusion keeps the operands of some peers while it waits for those of the others. In a schedule
  // where the latter depend on the former, that would never end: after this time the steps are
  // carried out one by one. No row of the table is like that.
  Duration fusion_patience = std::chrono::milliseconds(50);

  // A message of several blocks travels as one (bundle() in passes.h) up to this mean block, and in
  // shared memory from this many blocks on. bruck of 16 ranks over tcp, on 2 cores, takes 0.8 of
  // the time with blocks of 1 and 4 KiB; over shm, where a post costs little more than a copy, up
  // to 1.3 with messages of 8 and 16 blocks.
  size_t bundled = 4 << 10, bundled_in_memory = 64;
  // In shared memory only while the whole message is so small that its copies stay in a cache. Of
  // the time of separate blocks (bench_joined_blocks, L2 of 1 MiB), messages of 2 MiB take 0.35
  // with blocks of 1 KiB and 0.80 with 4 KiB, of 4 MiB 1.06 and 1.38, of 8 MiB with 4 KiB 1.56.
  size_t bundled_bytes_in_memory = 2 << 20;

  // Below it, latency dominates, which a wire format does not reduce (wire.h).
  size_t min_encoded = 16 << 10;

  // Published once (publish() in compose.h). Between these limits, one copy into scratch is cheaper
  // than one for each peer: smaller messages are never read in place, and the copy of larger ones
  // does not stay in the cache.
  size_t published_from = 64 << 10, published_up_to = 16 << 20;

  // Limit for a call in a group that is carried out together with others (calls/call_group.h);
  // bytes of all blocks, where each rank has one. With 2 ranks, calls one by one against packed:
  // 100 of 32 KiB take 426 against 348 us over shm and 1406 against 1134 over tcp; 20 of 64 KiB
  // take 120 against 126 and 499 against 431; 20 of 128 KiB take 219 against 280, and the same over
  // tcp. 20 all_gathers of 8 KiB take 20 against 13 and 154 against 31; of 32 KiB, 33 against 32
  // and 182 against 85.
  size_t packed = 32 << 10;

  bool operator==(const ProtocolLimits&) const = default;
};

// Whether no two of n ranks share memory. `hosts`: of each rank, numbered in the order of their
// first ranks; empty: all are on one host.
inline bool all_apart(std::span<const int> hosts, int n, bool loopback) {
  return loopback || (!hosts.empty() && *std::max_element(hosts.begin(), hosts.end()) == n - 1);
}

// Whether this many bytes of a private source are copied once for all peers.
inline bool is_published(const ProtocolLimits& limits, size_t bytes) {
  return bytes >= limits.published_from && bytes <= limits.published_up_to;
}

// Whether this many bytes, of the buffer or of a block, are few enough. The schedules, in one
// segment, decide the rest (fits_one_round() in plan.h).
inline bool small_for_one_round(const ProtocolLimits& limits, Collective collective, size_t bytes,
                                int n, bool apart) {
  const size_t most = !apart                ? limits.one_round_bytes
                      : reduces(collective) ? limits.one_round_added_apart
                                            : limits.one_round_copied_apart;
  return bytes <= most && static_cast<size_t>(n) <= limits.one_round_ranks;
}

}  // namespace ringwood

// A fingerprint describes what a rank is about to do, in 32 bytes that are sent before any data.
//
// Every operation begins with an agreement, which says who sends them to whom (agreement.h). Where
// sizes belong to pairs, they are sent to every rank first, with the pair's own count. A rank
// writes to its user's buffers only after it has heard, transitively, from all ranks that they made
// the same call. So a rank that makes a different call is found on first contact, with both
// descriptions, and every buffer is still unchanged. Two ranks need no extra round: the data
// follows the fingerprint at once and waits at the receiver.
//
// Sizes may belong to pairs of ranks: those of all_to_all, and in gather and scatter those of
// the root with each other rank. There the fingerprint for a peer states what goes to it and
// what is expected from it, so that both ends of a pair find a difference. The rest of the group
// learns of it in a second exchange, unless all ranks of an all_to_all state that all their
// sizes are equal. Calls whose blocks are of one size, and that say so, need none of this: all
// ranks know their size.
//
// Elements may lie in memory in another order than that of their indices, as those of a transposed
// matrix (operations/storage_order.h). A call over one buffer may state that order. Ranks need not
// state the same: one that hears of another than its own tells 0, the order of the indices, from
// then on. So in the end either all ranks know that all have stated one order, and the data moves
// in it, or all know that the data moves in the order of the indices. A rank that has stated an
// order sends no data before it knows; to one that has stated 0 both are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.h"
#include "transports/base/error.h"

namespace ringwood {

struct CollectiveArgs;  // plan.h

struct Fingerprint {
  uint64_t sequence = 0;
  uint64_t count = 0;  // sizes of pairs: elements to the peer, or from it where none go to it
  // Hash of uneven block sizes, or of the user's schedules, or of the sizes of a pack's calls
  // (calls/call_group.h), or of the order of the elements (may_state_order() in plan.h).
  uint32_t blocks = 0;
  int32_t root = 0;  // all_to_all: with `blocks`, the elements expected from the peer
  uint8_t collective = 0, type = 0, op = 0, algorithm = 0;  // algorithm: row of its collective
  uint16_t segments = 1;
  uint8_t wire : 3 = 0;      // WireFormat between hosts
  uint8_t memory : 1 = 0;    // MemoryKind
  uint8_t priority : 2 = 0;  // Priority
  uint8_t even : 2 = 0;      // all_to_all, gather, scatter; or kPacked
  uint8_t epoch = 0;         // the low byte of Plan::epoch
  static constexpr int kMaxSegments = 0xffff;
  static constexpr uint8_t kAnySizes = 0;
  static constexpr uint8_t kSameSizes = 1;  // the sizes that this rank of an all_to_all knows
  static constexpr uint8_t kOneSize = 2;    // required by the call: `count` everywhere
  static constexpr uint8_t kPacked = 3;     // several calls; `count` is their sum
  bool operator==(const Fingerprint&) const = default;
};
static_assert(sizeof(Fingerprint) == 32);

// The preamble: the first message of a rank to a peer in an operation. With its stamp it fills one
// cache line of shared memory. A payload this small needs no message of its own.
inline constexpr size_t kCarriedBytes = 16;
struct Preamble {
  Fingerprint fingerprint;
  uint8_t carries = 0;  // 1: the first message of the schedule is in `payload`
  uint8_t reserved[7] = {};
  std::byte payload[kCarriedBytes] = {};
};
static_assert(sizeof(Preamble) == 56);

// Precondition: 1 <= segments <= Fingerprint::kMaxSegments.
Fingerprint fingerprint_of(const CollectiveArgs& args, const std::string& algorithm, int segments,
                           uint64_t sequence);
uint32_t hash_counts(const std::vector<size_t>& counts);
// For sizes of pairs: what one end of a pair states about it.
void set_pair(Fingerprint& fingerprint, uint64_t sent, uint64_t expected);
// Its row, "ring"; accepts any bytes.
std::string algorithm_of(const Fingerprint& fingerprint);
// "all_reduce float32 x 1024, sum (#17)"; accepts any bytes.
std::string describe(const Fingerprint& fingerprint);
// The difference in words, or nothing.
std::optional<std::string> compare(const Fingerprint& mine, int me, const Fingerprint& theirs,
                                   int peer);
// The same as an error of that peer.
Status check_fingerprint(const Fingerprint& mine, int me, const Fingerprint& theirs, int peer);

}  // namespace ringwood

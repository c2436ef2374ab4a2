// What a rank is about to do, in 32 bytes that travel before any data.
//
// Every operation opens with an agreement: fingerprints go round by dissemination (sizes of pairs:
// to everyone, with the pair's own count), and a rank writes to its user's buffers only when it has
// heard, transitively, from all ranks that they called the same thing. So a rank that calls
// something else is found on first contact, with both descriptions, and every buffer is still
// untouched. For two ranks it costs no extra round: the data follows the fingerprint at once and
// waits on the other side.
//
// Sizes may belong to pairs: those of all_to_all, and of gather and scatter, of the root and each
// of the others. There the fingerprint for a peer says what goes to it and what is expected from
// it, so that both ends of a pair find a difference; the rest of the group hears of it in a second
// exchange, except where all ranks of an all_to_all say that all their sizes are the same. Calls
// whose blocks are of one size, and say so, need none of that: their size is everybody's.
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
  uint64_t count = 0;   // sizes of pairs: elements to the peer, or from it where none go to it
  uint32_t blocks = 0;  // hash of uneven block sizes, or of the user's schedules,
                        // or of the sizes of a pack's calls (calls/call_group.h)
  int32_t root = 0;     // all_to_all: with `blocks`, the elements expected from the peer
  uint8_t collective = 0, type = 0, op = 0, algorithm = 0;  // algorithm: row of its collective
  uint16_t segments = 1;
  uint8_t wire : 4 = 0;      // WireFormat between hosts
  uint8_t priority : 4 = 0;  // Priority
  uint8_t even = 0;          // all_to_all, gather, scatter; or kPacked
  static constexpr uint8_t kAnySizes = 0;
  static constexpr uint8_t kSameSizes = 1;  // those that this rank of an all_to_all knows
  static constexpr uint8_t kOneSize = 2;    // by the call: everywhere `count`
  static constexpr uint8_t kPacked = 3;     // several calls, `count` is their sum
  bool operator==(const Fingerprint&) const = default;
};
static_assert(sizeof(Fingerprint) == 32);

// The first message of a rank to a peer in an operation: one cache line of shared memory together
// with its stamp. A payload this small need not wait for a message of its own.
inline constexpr size_t kCarriedBytes = 16;
struct Preamble {
  Fingerprint fingerprint;
  uint8_t carries = 0;  // 1: the first message of the schedule is in `payload`
  uint8_t reserved[7] = {};
  std::byte payload[kCarriedBytes] = {};
};
static_assert(sizeof(Preamble) == 56);

// A hash of short texts, once per call: FNV-1a.
uint32_t fnv1a(std::string_view bytes);

Fingerprint fingerprint_of(const CollectiveArgs& args, const std::string& algorithm, int segments,
                           uint64_t sequence);
uint32_t hash_counts(const std::vector<size_t>& counts);
// Sizes of pairs: what one end of a pair says of it.
void set_pair(Fingerprint& fingerprint, uint64_t sent, uint64_t expected);
// "all_reduce float32 x 1024, sum (#17)"; trusts nothing in it.
std::string describe(const Fingerprint& fingerprint);
// What differs, in words, or nothing.
std::optional<std::string> compare(const Fingerprint& mine, int me, const Fingerprint& theirs,
                                   int peer);
// The same as an error of that peer.
Status check_fingerprint(const Fingerprint& mine, int me, const Fingerprint& theirs, int peer);

}  // namespace ringwood

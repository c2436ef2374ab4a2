// Schedules over links that carry a wire format (wire.h): where values are rounded so that all
// ranks still end with the same bits, and the proof that they do.
//
// A link between two hosts is encoded, one inside a host is not. The receiver over an encoded link
// gets the rounded value, so the sender must use the rounded value for everything else as well.
// Therefore in an all_reduce every value that goes over an encoded link and is also used otherwise
// is rounded in place before its first use. Rounding is idempotent (wire.h), so values that were
// received encoded, and are sent on, do not change.
//
// Two ranks that exchange their operands then both add the two rounded ones. The owner of a sum
// rounds it and keeps what it sends; a rank that relays it relays the same bits. Some rows do not
// end with equal sums that way: in `recursive_doubling` of three ranks one of the ranks that have
// the sum passes it on, and rounds it for that, while the other does not. prove_wire() finds such
// rows, and they are not encoded (cost_candidates.h).
//
// reduce and reduce_scatter leave each sum with one rank, so only what is sent is rounded. Pure.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// `host[r]` is the host of rank r; empty: all on one host, and nothing is encoded.
inline bool is_encoded(std::span<const int> host, int from, int to) {
  return !host.empty() && host[from] != host[to];
}

// Splits the schedule's messages and spans into single chunks, so that a chunk is encoded in the
// same blocks wherever it goes, and writes the rounding of a chunk c as copy [c] <- [c]. Not for
// verify(), which refuses copies onto themselves.
Schedule with_roundings(const Schedule& schedule, Collective collective, std::span<const int> host);
inline bool is_rounding(const Step& step) {
  return step.kind == StepKind::copy && step.dst == step.src;
}

struct WireProof {
  bool equal_bits = false;  // all ranks that end with a sum end with the same bits
  int roundings = 0;        // the most roundings, one after another, of any operand
};
// `all`: verified schedules, before with_roundings().
WireProof prove_wire(Collective collective, const std::vector<Schedule>& all,
                     std::span<const int> host);

}  // namespace ringwood

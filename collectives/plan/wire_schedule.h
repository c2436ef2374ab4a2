// Schedules over links that carry a wire format (wire.h): where values are rounded, so that all
// ranks still end with the same bits, and the proof that they do.
//
// A link between two hosts is encoded, one inside a host is not. What a receiver gets over an
// encoded link is the rounded value; its sender, who may use the same value later, has to use the
// rounded one, too. So in an all_reduce every value that goes over an encoded link and is used for
// anything else as well is rounded in place before its first use. Rounding is idempotent (wire.h),
// so that values which were received encoded, and are sent on, stay as they are.
//
// Two ranks that exchange their operands then both add the two rounded ones; the owner of a sum
// rounds it and keeps what it sends; who relays it relays the same bits. Some rows do not end with
// equal sums that way: in `recursive_doubling` of three ranks one of those who have the sum passes
// it on, and rounds it for that, while the other does not. prove_wire() finds them, and they are
// not encoded (cost_candidates.h).
//
// reduce and reduce_scatter leave each sum with one rank, so nothing is rounded but what is sent.
// Pure.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

// host[r] is that of rank r; empty: all on one, and nothing is encoded.
inline bool is_encoded(std::span<const int> host, int from, int to) {
  return !host.empty() && host[from] != host[to];
}

// The schedule with its spans taken apart into chunks, which are encoded each for itself so that a
// chunk has the same blocks wherever it goes, and with a rounding of a chunk c written as
// copy [c] <- [c]. Not for verify(), which refuses copies onto themselves.
Schedule with_roundings(const Schedule& schedule, Collective collective, std::span<const int> host);
inline bool is_rounding(const Step& step) {
  return step.kind == StepKind::copy && step.dst == step.src;
}

struct WireProof {
  bool equal_bits = false;  // all ranks that end with a sum end with the same bits
  int roundings = 0;        // the most that an operand goes through, one in another
};
// Of schedules that are verified, before with_roundings().
WireProof prove_wire(Collective collective, const std::vector<Schedule>& all,
                     std::span<const int> host);

}  // namespace ringwood

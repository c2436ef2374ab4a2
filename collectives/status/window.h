// How a rank has spent the last moments, from the records of its operations. Pure.
//
//        |<---------------- window ---------------->|
//   -----+==entered====agreed####ended---entered====|agreed##
//           inside: = and #      waited: =          outside: -
//
// A rank is late where it is outside while others wait (=) for it; a slow link makes # long on all
// of them. So the two are told apart without comparing the clocks of hosts.
#pragma once

#include <span>
#include <vector>

#include "collectives/recorder/records.h"
#include "collectives/status/rank_report.h"

namespace ringwood {

inline constexpr int64_t kWindowNs = 1'000'000'000;
// Of the shortest operations one in kSampled has a record: in a second there may be none.
inline constexpr int64_t kKindsNs = 30 * kWindowNs;

// `records`: those that have ended, by their ends, and those in flight. `complete_ns`: since then
// none is missing.
WindowReport window_of(std::span<const OperationRecord> records, int64_t now_ns,
                       int64_t complete_ns);

// Since when none is missing, of a group that has begun then. `latest`: the last records without a
// gap; `written`: how many there were when they had been read, or later.
int64_t complete_since(std::span<const OperationRecord> latest, uint64_t written, int64_t begun_ns,
                       int64_t now_ns);

// The operations with a whole record that ended since then; those that took most of it first.
std::vector<KindReport> kinds_of(std::span<const OperationRecord> records, int64_t since_ns);

}  // namespace ringwood

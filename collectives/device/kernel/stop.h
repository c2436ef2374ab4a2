// The waiting of a device's threads, and what ends it: the limit, or the host's abort.
#pragma once

#include "collectives/device/kernel/words.h"

namespace ringwood::device {

inline constexpr uint32_t kPacketNumber = 0xffff;  // in a report: it waited for packets

// What a thread waits for.
struct Stop {
  int peer = 0;
  uint32_t number = 0;
  uint64_t sequence = 0, expected = 0, seen = 0;
};

// The first report of a segment stays. Out of line, as all that is seldom called, so that the
// machine's registers are those of the moving of data.
template <class M>
RINGWOOD_DEVICE_COLD void report(M& m, const Launch& a, int segment, Code code, Stop stop) {
  Report& r = a.report[segment];
  if (!m.first_to_report(&r.code, uint32_t(code))) return;
  r.segment = uint32_t(segment);
  r.peer = uint32_t(stop.peer);
  r.number = stop.number;
  r.sequence = stop.sequence;
  r.expected = stop.expected;
  r.seen = stop.seen;
  m.complete_report(&r.complete);
}

// True: it is over. `begin`: when the waiting began; 0: not known yet.
template <class M>
RINGWOOD_DEVICE_COLD bool given_up(M& m, const Launch& a, int segment, uint64_t* begin, Stop stop) {
  m.relax();
  const uint64_t now = m.nanoseconds();
  if (*begin == 0) *begin = now;
  if (m.load_relaxed32(a.abort) != 0)
    report(m, a, segment, Code::aborted, stop);
  else if (now - *begin > a.limit_ns)
    report(m, a, segment, Code::timeout, stop);
  else
    return false;
  return true;
}

// The host's memory is far: every 64 turns.
template <class M, class Ready>
RINGWOOD_DEVICE bool wait_until(M& m, const Launch& a, int segment, Ready ready, const Stop& stop) {
  uint64_t begin = 0;
  for (uint32_t turns = 1;; ++turns) {
    if (ready()) return true;
    if (turns % 64 != 0) continue;
    uint64_t since = begin;
    M copy = m;
    if (given_up(copy, a, segment, &since, stop)) return false;
    begin = since;
  }
}

}  // namespace ringwood::device

// What ranks report to those who watch, for the table of decoders (decoders.cc).
#pragma once

#include "collectives/status/rank_report.h"
#include "tests/fuzz/random.h"
#include "transports/control/status/report_messages.h"
#include "transports/control/status/trace_messages.h"

namespace ringwood::testing {

inline ReportPage a_page(Random& r) {
  ReportPage page{r.from(0, 9), r.from(1, 99), r.flag(), {}};
  page.rows = r.some(2, [&] {
    return ReportRow{r.from(0, 99),      r.from(RankState::reported, RankState::departed),
                     uint32_t(r.bits()), r.from(0, 1 << 20),
                     r.text(),           r.blob(9)};
  });
  return page;
}

inline TraceQuery a_trace_query(Random& r) {
  return {r.from(TraceAsk::begin, TraceAsk::piece), r.bits(), r.from(0, 1 << 20),
          r.from(0u, kMaxTraceText)};
}

inline TracePiece a_trace_piece(Random& r) {
  return {r.from(TraceState::here, TraceState::absent),
          r.bits(),
          r.from(0, 1 << 20),
          r.from(0u, kMaxTraceText),
          r.from(0u, kMaxTraceText),
          r.blob(60)};
}

inline RankReport a_report(Random& r) {
  RankReport report;
  report.rank = r.from(0, 9), report.size = r.from(10, 20), report.pid = r.from(0, 99999);
  report.host = r.text(), report.group = r.text(), report.host_token = r.text();
  report.now_ns = int64_t(r.bits()), report.error = r.text();
  report.tracks = r.some(1, [&] {
    TrackReport track{int64_t(r.bits()), r.flag(), uint8_t(r.bits()), r.text(), r.text()};
    track.waits_for = r.from(-1, 9);
    return track;
  });
  report.counts = r.some(2, [&] {
    return CallCount{uint8_t(r.below(kCollectives)), r.bits(), r.bits()};
  });
  report.window = {int64_t(r.bits()), int64_t(r.bits()), 1, 2, 3, 4, 5};
  report.kinds = r.some(
      1, [&] { return KindReport{uint8_t(r.below(kCollectives)), r.bits(), r.text(), 1, 2, 3}; });
  report.peers = r.some(1, [&] { return PeerReport{r.from(0, 9), r.bits(), 7}; });
  report.paths = r.some(1, [&] {
    return PathOfRank{r.text(), r.text(), r.flag(), r.flag(), 3, 0.5, 1, r.bits(), r.bits()};
  });
  report.events = r.some(1, [&] { return EventReport{int64_t(r.bits()), r.text()}; });
  return report;
}

}  // namespace ringwood::testing

// What the ranks of a running group report of themselves to whoever watches it (`ringwood top`).
//
//   watcher --ReportQuery--> a rank's StatusEndpoint --> rank 0 --> every rank: its report
//           <--ReportPage---                         <--        <--
//
// A report is opaque here (collectives/status/rank_report.h), and bounded. The reports of all ranks
// come in pages, in the order of the ranks; each is asked for once the one before has been read, so
// that no more than a page is ever on its way to a reader that has stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "transports/base/bytes.h"

namespace ringwood {

inline constexpr size_t kMaxReport = 8 << 10;
// A page ends with the row that makes it longer than kFullPage.
inline constexpr size_t kFullPage = 24 << 10, kMaxReportHost = 64;
inline constexpr size_t kMaxPage = kFullPage + kMaxReport + kMaxReportHost + 128;
inline constexpr size_t kMaxPageRows = kMaxPage / 32;

struct ReportQuery {
  bool own = false;  // only of the rank that is asked; it takes nobody else's time
  int first = 0;     // the first rank of the page; 0 begins anew
};

enum class RankState : uint8_t {
  reported,  // in this round
  silent,    // has not answered; its row may have an earlier report
  lost,      // its connection has ended without a goodbye
  departed   // has left in good order
};

struct ReportRow {
  int rank = 0;
  RankState state = RankState::silent;
  uint32_t silent_ms = 0;  // since anything came from it
  int pid = 0;             // 0: not known to the sender
  std::string host;
  std::string report;  // empty: none has come yet
};

struct ReportPage {
  int first = 0;        // as asked for
  int size = 0;         // ranks of the group
  bool relayed = true;  // by rank 0; else only what the rank that was asked knows itself
  std::vector<ReportRow> rows;
  // The first rank that is not in it; `size`: this is the last page.
  int next() const { return rows.empty() ? size : rows.back().rank + 1; }
};
using ReportReply = std::function<void(const ReportPage&)>;

inline constexpr int kMaxInt = std::numeric_limits<int>::max();

void fields(auto& io, ReportQuery& query) {
  io.number(query.own);
  io.number(query.first, 0, kMaxInt);
}

void fields(auto& io, ReportRow& row) {
  io.number(row.rank, 0, kMaxInt - 1);
  io.number(row.state, RankState::reported, RankState::departed);
  io.number(row.silent_ms);
  io.number(row.pid, 0, kMaxInt);
  io.text(row.host, kMaxReportHost);
  io.blob(row.report, kMaxReport);
}

void fields(auto& io, ReportPage& page) {
  io.number(page.first, 0, kMaxInt);
  io.number(page.size, 1, kMaxInt);
  io.number(page.relayed);
  io.list(page.rows, kMaxPageRows, [&](ReportRow& row) { fields(io, row); });
}

// Appends rows, by rank from page.first on, until the page is full. `row(rank)` makes one.
template <class Make>
void fill_page(ReportPage& page, Make row) {
  size_t bytes = 0;
  for (int rank = page.first; rank < page.size && bytes < kFullPage; ++rank) {
    page.rows.push_back(row(rank));
    const ReportRow& added = page.rows.back();
    bytes += 32 + added.host.size() + added.report.size();
  }
}

}  // namespace ringwood

// Rank 0's side of the reports: asks every rank for one, in rounds, and keeps the last of each.
//
// A round begins when somebody asks, at most one in a second, and in a millisecond per rank. It
// ends when all have reported, at the latest after kPatience (with the usual heartbeat). A rank
// that has not answered is not asked again, and not waited for, until it has: nothing piles up at
// one that is stopped. Used only in the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "transports/base/asio.h"
#include "transports/base/clock.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"
#include "transports/control/status/report_messages.h"

namespace ringwood {

class ReportRounds final {
 public:
  static constexpr std::chrono::milliseconds kPatience{300};

  // `own`: rank 0's report; not empty. All references must outlive this.
  ReportRounds(asio::io_context& io, OobConnections& connections, const Heartbeats& heartbeats,
               const std::function<std::string()>& own);

  // The page from rank `first` on; for the first one a round may have to end first.
  void ask(int first, ReportReply reply);
  // Rank 0's report alone.
  ReportPage own_page() const;
  // False: it was not asked for, or is too long.
  bool on_report(int rank, std::string report);
  // A rank has left or died.
  void on_end() { conclude_when_complete(); }

 private:
  struct Rank {
    bool asked = false;     // and has not answered
    bool awaited = false;   // by the round under way
    bool answered = false;  // in the round under way
    // In the last round that has ended: another watcher may still read its pages.
    bool reported = false;
    std::string report;  // its last
  };

  void begin(Clock::time_point now);
  void conclude_when_complete();
  void conclude();
  ReportPage page(int first) const;
  ReportRow row(int rank) const;

  OobConnections& connections_;
  const Heartbeats& heartbeats_;
  const std::function<std::string()>& own_;
  asio::steady_timer timer_;
  std::vector<Rank> ranks_;
  Clock::time_point begun_{};
  bool under_way_ = false;
  std::vector<ReportReply> waiting_;  // for the first page of the round under way
};

// `report`, or nothing if it is too long to be sent.
std::string bounded_report(std::string report);
// Of the rank of this process.
ReportRow own_row(int rank, std::string report);

}  // namespace ringwood

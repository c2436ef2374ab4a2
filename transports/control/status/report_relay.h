// The reports as a rank other than 0 gets them for its watchers: from rank 0, page by page.
//
// If rank 0 does not answer within kPatience, or is gone, the watcher gets this rank's own report
// and what is known here of rank 0. One page at a time is on its way, so that nothing piles up at
// either end when the other is stopped. Used only in the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transports/base/asio.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"
#include "transports/control/status/report_messages.h"

namespace ringwood {

class ReportRelay final {
 public:
  static constexpr std::chrono::milliseconds kPatience{700};

  // `own`: this rank's report; not empty. All references must outlive this.
  ReportRelay(asio::io_context& io, int rank, OobConnections& connections,
              const Heartbeats& heartbeats, const std::function<std::string()>& own)
      : rank_(rank), connections_(connections), heartbeats_(heartbeats), own_(own), timer_(io) {}

  void ask(const ReportQuery& query, ReportReply reply);
  // Rank 0 wants this rank's.
  void on_request();
  // False: nobody has asked for it, or it is not one of this group.
  bool on_page(const ReportPage& page);

 private:
  struct Pending {
    int first;
    ReportReply reply;
  };

  void ask_next();
  void give_up();
  ReportPage own_page() const;

  const int rank_;
  OobConnections& connections_;
  const Heartbeats& heartbeats_;
  const std::function<std::string()>& own_;
  asio::steady_timer timer_;
  std::optional<int> asked_;  // the first rank of the page that rank 0 has not sent yet
  std::vector<Pending> pending_;
};

}  // namespace ringwood

// Rank 0's side of the control connections: it makes the group error and sends it to all ranks.
//
// The first error, its own or a peer's, is frozen. To a timeout or a mismatch it adds what every
// rank is doing (StatusQuery, 60 ms), to a lost connection what became of the peer (50 ms). Then it
// sends one group error to all.
#pragma once

#include "transports/control/error_delivery.h"
#include "transports/control/oob_side.h"
#include "transports/control/parameter_change.h"
#include "transports/control/status/report_rounds.h"
#include "transports/control/status_query.h"

namespace ringwood {

class OobRoot final : public OobSide {
 public:
  // No handler is empty. All references must outlive this.
  OobRoot(asio::io_context& io, OobConnections& connections, const Heartbeats& heartbeats,
          ErrorDelivery& delivery, const Control::Handlers& handlers);
  bool on_message(int rank, const Message& message) override;
  void on_goodbye(int rank) override;
  void on_death(int rank, Error death) override;
  void report(Error error) override;
  void report(const PathReport& path) override { handlers_.reported(path); }
  void ask_reports(const ReportQuery& query, ReportReply reply) override;
  void propose(Proposal proposal) override { change_.propose(std::move(proposal)); }
  void on_heartbeat() override {}
  void on_leaving() override;

 private:
  bool on_path(int rank, const PathReport& path);
  bool on_report_query(int rank, const ReportQuery& query);
  void freeze(Error error);
  void count(int rank, const OpStatuses& op_statuses);
  void compare_channels(int rank, const OpStatuses& theirs);
  void conclude_when_complete();
  void conclude();

  OobConnections& connections_;
  const Heartbeats& heartbeats_;
  ErrorDelivery& delivery_;
  const Control::Handlers& handlers_;
  StatusQuery query_;
  ParameterChange change_;
  ReportRounds reports_;
  bool leaving_ = false;
};

}  // namespace ringwood

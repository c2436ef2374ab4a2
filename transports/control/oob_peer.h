// The control side of every rank but 0: it reports its error to the root and waits for the group
// error.
//
// If none comes, after 300 ms or when the root is gone, its own error stands. When the root has
// left, the peers no longer hear of each other: an error stays with the rank that reports it, and a
// death is noticed only by the links to the dead rank.
#pragma once

#include "transports/control/error_delivery.h"
#include "transports/control/oob_side.h"
#include "transports/control/status/report_relay.h"

namespace ringwood {

class OobPeer final : public OobSide {
 public:
  // No handler is empty. All references must outlive this.
  OobPeer(asio::io_context& io, int rank, OobConnections& connections, const Heartbeats& heartbeats,
          ErrorDelivery& delivery, const Control::Handlers& handlers);
  bool on_message(int rank, const Message& message) override;
  void on_goodbye(int rank) override;
  void on_death(int rank, Error death) override;
  void report(Error error) override;
  void report(const PathReport& path) override;
  void ask_reports(const ReportQuery& query, ReportReply reply) override {
    reports_.ask(query, std::move(reply));
  }
  void propose(Proposal) override {}
  void on_heartbeat() override;
  void on_leaving() override;

 private:
  void ask_clock();
  void on_clock(const ClockQuestion& answer);
  bool on_change(const Message& message);
  bool on_report(const Message& message);
  void await_group_error();

  OobConnections& connections_;
  const Heartbeats& heartbeats_;
  ErrorDelivery& delivery_;
  const Control::Handlers& handlers_;
  ReportRelay reports_;
  bool leaving_ = false;
  uint32_t prepared_ = 0;  // the epoch of the last change
  // Answers to questions about the clock; the last question, 0: it was answered.
  int answers_ = 0, heartbeats_sent_ = 0;
  int64_t asked_ns_ = 0;
};

}  // namespace ringwood

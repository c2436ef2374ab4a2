// What rank 0 (OobRoot) and the other ranks (OobPeer) do differently: how the first error becomes
// the group error, and which rank sends it. All calls come from the control thread.
#pragma once

#include "transports/control/control_messages.h"

namespace ringwood {

class OobSide {
 public:
  virtual ~OobSide() = default;
  // For every type except those that both sides handle alike (introduce, goodbye, seen, and those
  // of traces). Returns false if the message is not valid here.
  virtual bool on_message(int rank, const Message& message) = 0;
  // That rank has said goodbye.
  virtual void on_goodbye(int rank) = 0;
  // Its connection has ended without a goodbye.
  virtual void on_death(int rank, Error death) = 0;
  // To be called once in a period of heartbeats.
  virtual void on_heartbeat() = 0;
  // This rank reports an error.
  virtual void report(Error error) = 0;
  // This rank reports a path from it.
  virtual void report(const PathReport& path) = 0;
  // A watcher at this rank asks for reports.
  virtual void ask_reports(const ReportQuery& query, ReportReply reply) = 0;
  // This rank proposes a change of parameters.
  virtual void propose(Proposal proposal) = 0;
  // This rank is about to say goodbye: a pending error is decided now, and later errors of its own
  // stay with it.
  virtual void on_leaving() = 0;
};

}  // namespace ringwood

// The control side of every rank but 0: it reports its error to the root and waits for the group
// error.
//
// If none comes, after 300 ms or when the root is gone, its own error stands. When the root has
// left, the peers no longer hear of each other: an error stays with the rank that reports it, and a
// death is noticed only by the links to the dead rank.
#pragma once

#include "transports/control/oob_error.h"
#include "transports/control/oob_side.h"

namespace ringwood {

class OobPeer final : public OobSide {
 public:
  // No handler is empty. All references must outlive this.
  OobPeer(OobConnections& connections, OobError& error, const Control::Handlers& handlers);
  bool on_message(int rank, const Message& message) override;
  void on_goodbye(int rank) override;
  void on_death(int rank, Error death) override;
  void report(Error error) override;
  void report(const PathReport& path) override;
  void propose(Proposal) override {}
  void on_leaving() override;

 private:
  bool on_change(const Message& message);
  void await_group_error();

  OobConnections& connections_;
  OobError& error_;
  const Control::Handlers& handlers_;
  bool leaving_ = false;
  uint32_t prepared_ = 0;  // the epoch of the last change
};

}  // namespace ringwood

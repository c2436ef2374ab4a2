// What every rank was doing when the group failed, as the root learns it: from each rank's last
// heartbeat and from its reply to the root's status query. Used only in the control thread.
#pragma once

#include <vector>

#include "transports/control/explain_error.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"

namespace ringwood {

class StatusQuery final {
 public:
  explicit StatusQuery(int size) : statuses_(size) {}

  // The content of a heartbeat; it does not replace a reply.
  void note_heartbeat(int rank, const OpStatuses& op_statuses);
  void note_reply(int rank, const OpStatuses& op_statuses);
  // Every rank that is present has replied.
  bool complete(const OobConnections& connections) const;
  std::vector<StatusRow> rows(const OobConnections& connections,
                              const Heartbeats& heartbeats) const;

 private:
  struct Status {
    bool replied = false;
    OpStatuses op_statuses;
  };
  std::vector<Status> statuses_;  // by rank
};

}  // namespace ringwood

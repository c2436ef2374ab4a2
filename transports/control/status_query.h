// What every rank was doing when the group failed, as the root learns it: from the last heartbeat
// of each, and from its answer to the root's query. Used in the control thread only.
#pragma once

#include <vector>

#include "transports/control/compose_error.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"

namespace ringwood {

class StatusQuery final {
 public:
  explicit StatusQuery(int size) : statuses_(size) {}

  // What a heartbeat said; an answer is not replaced by it.
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

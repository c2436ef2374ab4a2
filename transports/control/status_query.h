// What every rank was doing when the group failed, as the root learns it: from the last heartbeat
// of each, and from its answer to the root's query. Used in the control thread only.
#pragma once

#include <vector>

#include "transports/control/control_verdict.h"
#include "transports/control/heartbeats.h"
#include "transports/control/oob_connections.h"

namespace ringwood {

class StatusQuery final {
 public:
  explicit StatusQuery(int size) : statuses_(size) {}

  // What a heartbeat said; an answer is not replaced by it.
  void note_heartbeat(int rank, const Standings& standings);
  void note_answer(int rank, const Standings& standings);
  // Every rank that is present has answered.
  bool complete(const OobConnections& connections) const;
  std::vector<CensusRow> rows(const OobConnections& connections,
                              const Heartbeats& heartbeats) const;

 private:
  struct Status {
    bool answered = false;
    Standings standings;
  };
  std::vector<Status> statuses_;  // by rank
};

}  // namespace ringwood

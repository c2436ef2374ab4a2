#include "transports/control/status_query.h"

namespace ringwood {

void StatusQuery::note_heartbeat(int rank, const OpStatuses& op_statuses) {
  if (!statuses_[rank].replied) statuses_[rank].op_statuses = op_statuses;
}

void StatusQuery::note_reply(int rank, const OpStatuses& op_statuses) {
  statuses_[rank] = {true, op_statuses};
}

bool StatusQuery::complete(const OobConnections& connections) const {
  for (int rank = 0; rank < connections.size(); ++rank) {
    if (connections.present(rank) && !statuses_[rank].replied) return false;
  }
  return true;
}

std::vector<StatusRow> StatusQuery::rows(const OobConnections& connections,
                                         const Heartbeats& heartbeats) const {
  std::vector<StatusRow> rows(statuses_.size());
  for (int rank = 0; rank < connections.size(); ++rank) {
    StatusRow& row = rows[rank];
    row.op_statuses = statuses_[rank].op_statuses;
    row.heard_ago_s = heartbeats.silent_s(rank);
    if (statuses_[rank].replied) {
      row.state = StatusRow::State::replied;
    } else if (connections.died(rank)) {
      row.state = StatusRow::State::died;
    } else if (connections.left(rank)) {
      row.state = StatusRow::State::departed;
    }
  }
  return rows;
}

}  // namespace ringwood

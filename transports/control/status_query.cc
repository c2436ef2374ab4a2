#include "transports/control/status_query.h"

namespace ringwood {

void StatusQuery::note_heartbeat(int rank, const Standings& standings) {
  if (!statuses_[rank].answered) statuses_[rank].standings = standings;
}

void StatusQuery::note_answer(int rank, const Standings& standings) {
  statuses_[rank] = {true, standings};
}

bool StatusQuery::complete(const OobConnections& connections) const {
  for (int rank = 0; rank < connections.size(); ++rank) {
    if (connections.present(rank) && !statuses_[rank].answered) return false;
  }
  return true;
}

std::vector<CensusRow> StatusQuery::rows(const OobConnections& connections,
                                         const Heartbeats& heartbeats) const {
  std::vector<CensusRow> rows(statuses_.size());
  for (int rank = 0; rank < connections.size(); ++rank) {
    CensusRow& row = rows[rank];
    row.standings = statuses_[rank].standings;
    row.heard_ago_s = heartbeats.silent_s(rank);
    if (statuses_[rank].answered) {
      row.state = CensusRow::State::answered;
    } else if (connections.died(rank)) {
      row.state = CensusRow::State::died;
    } else if (connections.left(rank)) {
      row.state = CensusRow::State::departed;
    }
  }
  return rows;
}

}  // namespace ringwood

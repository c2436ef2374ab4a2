// From the first error and what every rank is doing to the one error that all ranks report.
// Pure functions of values.
#pragma once

#include <string>
#include <vector>

#include "transports/control/control.h"

namespace ringwood {

// What rank 0 knows of one rank when the status query closes.
struct StatusRow {
  enum class State { replied, silent, died, departed };
  State state = State::silent;
  OpStatuses op_statuses;  // replied: now; silent: sequences of the last heartbeat
  double heard_ago_s = 0;  // silent: since then
};

// Precondition: `rows` is by rank and not empty.
//   timeout   adds who is missing (behind, silent, dead, gone) and makes the first of them the
//   peer; becomes a mismatch where ranks have called the operation with different priorities;
//   mismatch  adds who called what and makes the first of the smaller group the peer; the
//   loss of a rank that has said goodbye says so; others are returned as they are.
Error compose_group_error(Error first, const std::vector<StatusRow>& rows);

// The first operation that two ranks have under way on different channels, or -1.
int64_t on_other_channel(const OpStatuses& a, const OpStatuses& b);
// The mismatch that this is.
Error different_priorities(int64_t sequence, int rank, int peer);

// "at #5 all_reduce float32 x 1024, sum and #6 barrier", or "after #6 barrier".
std::string place_of(const OpStatuses& op_statuses);

// Why an operation fails that waits for a rank which left in good order.
std::string left_text(int rank);

// True where a connection's end is all that is known.
bool is_loss(const Error& error);

// True for the codes that compose_group_error() adds something to.
bool needs_status_query(ErrorCode code);

// "rank 3", "ranks 0-2 and 5"; long lists are cut ("and 17 more").
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace ringwood

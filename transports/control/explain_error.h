// Makes the group error, which all ranks report, of the first error and of what every rank is
// doing; ErrorDelivery (error_delivery.h) has the one and delivers the other. Pure functions of
// values.
#pragma once

#include <string>
#include <vector>

#include "transports/control/control.h"

namespace ringwood {

// What rank 0 knows of one rank when the status query closes.
struct StatusRow {
  enum class State { replied, silent, died, departed };
  State state = State::silent;
  OpStatuses op_statuses;  // replied: the reply; silent: sequences of the last heartbeat
  double heard_ago_s = 0;  // silent: seconds since the last message
};

// The group error of the first error. Precondition: `rows` is indexed by rank and not empty.
// - timeout: adds the ranks that are missing (behind, silent, dead, left) and makes the first of
//   them the peer; becomes a mismatch where ranks have called the operation with different
//   priorities.
// - mismatch: adds which ranks called what and makes the first of the smaller group the peer.
// - the loss of a rank that has said goodbye: says so.
// - other errors are returned unchanged.
Error explain_error(Error first, const std::vector<StatusRow>& rows);

// The first operation that two ranks have under way on different channels, or -1.
int64_t on_other_channel(const OpStatuses& a, const OpStatuses& b);
// The mismatch error for such an operation.
Error different_priorities(int64_t sequence, int rank, int peer);

// "at #5 all_reduce float32 x 1024, sum and #6 barrier", "after #6 barrier", or "has called nothing
// yet".
std::string place_of(const OpStatuses& op_statuses);

// Why an operation fails that waits for a rank which left in good order.
std::string left_text(int rank);

// True if the error says only that a connection has ended.
bool is_loss(const Error& error);

// True for the codes to which explain_error() adds something.
bool needs_status_query(ErrorCode code);

// "rank 3", "ranks 0-2 and 5"; long lists are cut ("and 17 more").
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace ringwood

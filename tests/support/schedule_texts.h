// Schedules of a user's own, for what no row of the table does.
#pragma once

#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood::testing {

// Both 0 and 1 add ((x0 + x1) + x2), but 1 keeps x0 + x1 as well, so it has that rounded.
inline constexpr const char* kOtherAccumulations[] = {
    "schedule rank 0 of 3 chunks 1\n"
    "send 1 [0]\nrecv_reduce 1 [0]\nrecv_reduce 2 [0]\nsend 2 [0]",
    "schedule rank 1 of 3 chunks 1 scratch 0\n"
    "send 0 [0]\nrecv 0 [1]\nreduce [0] <- [1]\ncopy [1] <- [0]\nrecv_reduce 2 [0]",
    "schedule rank 2 of 3 chunks 1\nsend 0 [0]\nsend 1 [0]\nrecv 0 [0]"};

// 2 adds a sum of two ranks to its own chunk 0, and a rank's own chunk 1 to a sum, in one step.
inline constexpr const char* kUnlikeChunks[] = {
    "schedule rank 0 of 3 chunks 2 scratch 0 1\n"
    "recv 1 [2]\nreduce [0] <- [2]\nsend 2 [0:2]\nrecv 2 [0:2]\nsend 1 [0:2]",
    "schedule rank 1 of 3 chunks 2 scratch 1\n"
    "send 0 [0]\nsend 2 [1]\nrecv 0 [0:2]",
    "schedule rank 2 of 3 chunks 2\n"
    "recv_reduce 1 [1]\nrecv_reduce 0 [0:2]\nsend 0 [0:2]"};

template <size_t kRanks>
inline std::vector<Schedule> parsed(const char* const (&texts)[kRanks]) {
  std::vector<Schedule> all;
  for (const char* text : texts) all.push_back(parse_schedule(text));
  return all;
}

}  // namespace ringwood::testing

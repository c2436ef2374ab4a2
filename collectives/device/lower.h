// Schedules of all ranks -> a program for each rank (program.h). Pure: no sizes, types, addresses.
//
// 1. Each message goes one of three ways, decided for the pair: pulled where it is added, pushed
//    where it is stored, or sent as a packet (lowered_messages.h).
// 2. Each step becomes a pass with the signals that it needs.
// 3. Passes whose elements depend on the same elements only are joined (join_passes.h).
// 4. Rows of additions that several passes still share get a place for their sum (split_rows.h).
// 5. Posts are made as early as what they promise is true, signals get numbers, and what a later
//    number implies is dropped (number_points.h).
//
// A block carries out its program in order, which is stricter than a schedule's graph, so that a
// program may be a deadlock: it is proved, and lowered more timidly until it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/device/program.h"
#include "collectives/plan/sums.h"

namespace ringwood::device {

// Which passes may be joined though a wait stands between them, which then comes before both.
enum class Joining { none, without_waits, rows_over_waits, over_waits };

struct Effort {
  bool packets = false;  // for small messages: every message is one
  bool push = true;      // false: what is stored is pulled too
  Joining joining = Joining::over_waits;
};
// From the most to the least; kEfforts of them.
inline constexpr int kEfforts = 6;
Effort effort_of_level(int level, bool packets);

// Where chunks are blocks that may lie anywhere, a step of several is one of each: a pass is on
// memory that is contiguous.
std::vector<Schedule> single_blocks(Collective collective, std::vector<Schedule> all);

// Precondition: the schedules are verified (verify.h) and, in block-wise collectives, of single
// blocks. Linear in messages but for joining, which is quadratic in a rank's steps.
Lowered lower(const std::vector<Schedule>& all, const Effort& effort);

struct ProvedProgram {
  std::vector<Schedule> schedules;  // as they were lowered
  Lowered lowered;
  int level = 0;
};
// The most effort whose result is proved; none, with the last reason in `why`, where no level is,
// or where the ranks add in different rows.
// Deterministic: equal on all ranks.
std::optional<ProvedProgram> lower_proved(Collective collective, std::vector<Schedule> all,
                                          bool packets, std::string* why = nullptr);

}  // namespace ringwood::device

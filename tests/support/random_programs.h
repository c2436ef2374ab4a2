// Random programs: schedules of a group that are valid, and nothing else.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood::testing {

using Memory = std::vector<std::vector<int64_t>>;  // by rank: the buffer

// Any program of messages and local steps, one global event after the other, is a valid set of
// schedules.
struct Program {
  std::vector<Schedule> schedules;
  Memory before, after;
};
// `count` numbers of so many bytes in one buffer of each rank, cut as an all_reduce cuts it in one
// segment. Memory has all their bits and more: sums of integers wrap.
Program random_program(std::mt19937& random, int n, size_t count, int events, size_t bytes = 8);

// An all_reduce of any args: each chunk is added up along a tree, in any order, with or without
// scratch, in rows of several additions or of one, and handed out along another. verify() proves
// it.
std::vector<Schedule> random_all_reduce(std::mt19937& random, int n);

}  // namespace ringwood::testing

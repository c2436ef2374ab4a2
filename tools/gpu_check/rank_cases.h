// The cases that ranks are compared in, wherever they run.
#pragma once

#include <string>
#include <vector>

#include "tools/gpu_check/gpu_rank.h"

namespace ringwood::gpu_check {

inline constexpr int kBlocksOfCases = 4;  // of a rank, at most

// Each `thin`-th one of all for n ranks, the same on every rank.
std::vector<Case> cases_of(int n, int thin);
// "" or what is wrong with the first that is.
std::string run_cases(Communicator& group, const cuda::Driver& driver, int ordinal, int thin);

}  // namespace ringwood::gpu_check

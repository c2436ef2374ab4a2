// What a collective leaves, by the schedules' own interpreter and the CPU's kernels: the bits that
// a device's programs have to leave, too. Knows nothing of programs, words or passes.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood::testing {

struct ReferenceCall {
  CollectiveArgs args;  // of equal blocks
  int segments = 1;
  bool whole = false;           // of an average: Sums::whole, as the program has it
  std::vector<double> factors;  // of PREMUL_SUM, by rank
};
// By rank.
using RankBytes = std::vector<std::vector<std::byte>>;

// The outputs of all ranks. `inputs`: of each rank what its user passes, in whole; of in-place
// collectives the buffer, which is also the output. Where nothing is to be left, bytes are those of
// `before`.
RankBytes reference(const std::vector<Schedule>& all, const ReferenceCall& call,
                    const RankBytes& inputs, const RankBytes& before);

}  // namespace ringwood::testing

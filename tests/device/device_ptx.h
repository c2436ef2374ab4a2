// Carries out the programs of DeviceRanks by the PTX that nvcc made, on a machine with a weak
// memory (tests/ptx): every rank is a device with a stream, and every block has a few threads.
#pragma once

#include <cstdint>
#include <string>

#include "tests/device/device_ranks.h"
#include "tests/ptx/stream.h"

namespace ringwood::testing {

struct PtxRun {
  std::string wrong;  // "": all came out right, in every round, without a race
  uint64_t instructions = 0, stale = 0;
};
// Deterministic in the seed. More instructions than `limit` are a hang; it wants to be a hundred
// times what a run takes, since slow threads make others spin.
PtxRun run_on_ptx(const ptx::Module& module, DeviceRanks& ranks, int rounds, int threads_per_block,
                  uint64_t seed, uint64_t limit = 400'000'000);

}  // namespace ringwood::testing

// Carries out the programs of DeviceRanks on threads: a few are a block, and a rank has a block for
// each segment. Ranks wait for each other in the programs only.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/kernel/host_kernels.h"
#include "tests/device/device_ranks.h"

namespace ringwood::testing {

// All rounds of every rank, one after the other, as a stream has them. The first thing that is
// wrong, or "".
inline std::string run_on_threads(DeviceRanks& ranks, int rounds, int threads_per_block) {
  const auto kernel = device::host_kernel(ranks.kernel());
  std::vector<std::string> wrong(static_cast<size_t>(ranks.ranks()));
  std::vector<std::unique_ptr<device::BlockBarrier>> barriers;
  std::vector<std::unique_ptr<device::BlockMemory>> memory;
  const auto barrier = [&](int threads) {
    return barriers.emplace_back(std::make_unique<device::BlockBarrier>(threads)).get();
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    device::BlockBarrier* const stream = barrier(ranks.segments() * threads_per_block);
    for (int segment = 0; segment < ranks.segments(); ++segment) {
      device::BlockBarrier* const block = barrier(threads_per_block);
      auto* const shared = memory.emplace_back(std::make_unique<device::BlockMemory>()).get();
      for (int thread = 0; thread < threads_per_block; ++thread)
        threads.emplace_back(
            [&ranks, &wrong, kernel, rank, rounds, stream, shared,
             machine = device::HostMachine{thread, threads_per_block, segment, block}] {
              const bool first = machine.of_block == 0 && machine.of_thread == 0;
              for (int round = 0; round < rounds; ++round) {
                if (first) ranks.write(rank, round);
                stream->sync(false);
                kernel(machine, *shared, ranks.launch(rank, round));
                stream->sync(false);
                if (first && wrong[static_cast<size_t>(rank)].empty())
                  wrong[static_cast<size_t>(rank)] = ranks.check(rank, round);
              }
            });
    }
  }
  threads.clear();
  if (const std::string reported = ranks.reported(); !reported.empty()) return reported;
  for (const std::string& one : wrong)
    if (!one.empty()) return one;
  return "";
}

}  // namespace ringwood::testing

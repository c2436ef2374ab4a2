// Carries out one case by a file of PTX, for tests/python/cuda/test_mutants.py:
//
//   run_ptx FILE ROW N COUNT SEGMENTS bulk|packets|staged ROUNDS THREADS SEEDS
//
// of an all-reduce of fp32 sums.
//
// Prints how many instructions it took, or what was wrong, with which it ends with 1.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/device/device_ptx.h"

int main(int count, char** words) {
  using namespace ringwood;
  if (count != 10) return std::fputs("run_ptx: see its source\n", stderr), 2;
  const ptx::Module module(ptx::read_ptx(words[1]));
  const auto number = [&](int i) { return std::atoi(words[i]); };
  testing::DeviceCase of;
  of.row = find_algorithm(Collective::all_reduce, words[2]);
  if (!of.row) return std::fputs("run_ptx: no such row\n", stderr), 2;
  of.n = number(3);
  of.count = static_cast<size_t>(number(4));
  of.segments = number(5);
  of.packets = std::string_view(words[6]) == "packets";
  of.staged = std::string_view(words[6]) == "staged";
  const int rounds = number(7), threads = number(8), seeds = number(9);
  uint64_t instructions = 0, stale = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    testing::DeviceRanks ranks(of, rounds, static_cast<uint64_t>(seed));
    const auto run = testing::run_on_ptx(module, ranks, rounds, threads,
                                         static_cast<uint64_t>(seed), 20'000'000);
    instructions += run.instructions;
    stale += run.stale;
    if (run.wrong.empty()) continue;
    fmt::print("{}\n", run.wrong);
    return 1;
  }
  fmt::print("{} instructions, {} stale\n", instructions, stale);
  return 0;
}

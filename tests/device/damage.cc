// Two opinions on damaged programs: what the proof accepts is carried out by the PTX under a weak
// memory, and has to be right there, too. A signal that is left out, told too early or waited for
// too little is often implied by others; the proof tells which.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "collectives/device/prove.h"
#include "tests/device/device_ptx.h"

namespace ringwood::testing {
namespace {

using device::Instruction;
using device::Program;
using device::ProvedProgram;
using device::Verb;

enum class Damage { without_wait, without_post, less, swapped };
const char* to_string(Damage damage) {
  switch (damage) {
    case Damage::without_wait: return "without a wait";
    case Damage::without_post: return "without a post";
    case Damage::less: return "waiting for one less";
    case Damage::swapped: return "with neighbours swapped";
  }
  return "";
}

// False: there is nothing of the kind at that place.
bool damage(Program& program, size_t at, Damage how) {
  Instruction& one = program[at];
  const auto here = program.begin() + static_cast<ptrdiff_t>(at);
  switch (how) {
    case Damage::without_wait:
    case Damage::without_post:
      if (one.verb != (how == Damage::without_wait ? Verb::wait : Verb::post)) return false;
      program.erase(here);
      return true;
    case Damage::less:
      if (one.verb != Verb::wait || one.number < 2) return false;
      --one.number;
      return true;
    case Damage::swapped:
      if (at + 1 == program.size() || program[at + 1].verb == one.verb) return false;
      std::iter_swap(here, here + 1);
      return true;
  }
  return false;
}

struct Tally {
  int all = 0, refuted = 0;
};

TEST(DamagedPrograms, ThatTheProofAcceptsAreRightByPtx) {
  const ptx::Module module(ptx::read_ptx(fmt::format("{}/kernels-0.ptx", RINGWOOD_KERNEL_FOLDER)));
  std::map<Damage, Tally> tallies;
  uint64_t seed = 0;
  for (const AlgorithmRow& row : algorithm_table())
    for (const int n : {2, 3, 4})
      for (const bool packets : {false, true}) {
        DeviceCase of{&row, n, 0, DataType::float32, ReduceOp::sum, 24};
        of.packets = packets;
        if (!is_possible(of)) continue;
        const ProvedProgram& whole = proved_of(of);
        const auto rank = static_cast<size_t>(++seed % static_cast<uint64_t>(n));
        for (size_t at = 0; at < whole.lowered.programs[rank].size(); ++at)
          for (const Damage how :
               {Damage::without_wait, Damage::without_post, Damage::less, Damage::swapped}) {
            ProvedProgram damaged = whole;
            if (!damage(damaged.lowered.programs[rank], at, how)) continue;
            ++tallies[how].all;
            if (device::prove(damaged.schedules, damaged.lowered)) {
              ++tallies[how].refuted;
              continue;
            }
            for (int turn = 0; turn < 3; ++turn) {
              DeviceRanks ranks(of, 3, ++seed, &damaged);
              EXPECT_EQ(run_on_ptx(module, ranks, 3, 2, seed).wrong, "")
                  << "rank " << rank << " " << to_string(how) << " at " << at;
              if (HasFailure()) return;
            }
          }
      }
  for (const auto& [how, tally] : tallies) {
    fmt::print("{}: {} of {} refuted\n", to_string(how), tally.refuted, tally.all);
    // Of the others it is known that they are right; more of them, and the proof has gone blind.
    EXPECT_GT(tally.refuted, tally.all * 4 / 10) << to_string(how);
    EXPECT_GT(tally.all, 50) << to_string(how);
  }
}

}  // namespace
}  // namespace ringwood::testing

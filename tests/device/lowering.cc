// Every row of the table of algorithms as programs of a device: proved, and damage is refuted.
#include "collectives/device/lower.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "collectives/algorithms/algorithms.h"
#include "collectives/device/prove.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"

namespace ringwood::device {
namespace {

using ringwood::testing::kSlower;
using ringwood::testing::places_for;
using ringwood::testing::rows_with_data;

std::vector<Schedule> schedules(const AlgorithmRow& row, int n, int root) {
  const auto places = places_for(row, n);
  if (!places) return {};
  return single_blocks(row.collective, build_all(row, places->where(0, n, root)));
}

class EveryRowOnADevice : public ::testing::TestWithParam<const AlgorithmRow*> {};

TEST_P(EveryRowOnADevice, IsProvedInBulkAndAsPackets) {
  const AlgorithmRow& row = *GetParam();
  for (int n = 2; n <= (kSlower > 1 ? 8 : 16); ++n)
    for (const int root : has_root(row.collective) ? std::vector{0, n - 1} : std::vector{0})
      for (const bool packets : {false, true}) {
        const auto all = schedules(row, n, root);
        if (all.empty()) continue;
        std::string why;
        EXPECT_TRUE(lower_proved(row.collective, all, packets, &why))
            << "n = " << n << " root = " << root << (packets ? " packets: " : ": ") << why;
      }
}

// A program without one of its passes, operands or results is another one; one without a signal may
// be right by way of others, and is told where it is not.
TEST_P(EveryRowOnADevice, WithoutAPassOrAnOperandIsRefuted) {
  const AlgorithmRow& row = *GetParam();
  if (std::string_view(row.name) == "hierarchical_leaders" && in_blocks(row.collective))
    GTEST_SKIP() << "leaders send all blocks in one piece, also those that the rank has itself";
  for (const int n : {3, 4}) {
    const auto all = schedules(row, n, 0);
    if (all.empty()) continue;
    const auto proved = lower_proved(row.collective, all, false);
    ASSERT_TRUE(proved);
    for (int rank = 0; rank < n; ++rank)
      for (size_t at = 0; at < proved->lowered.programs[rank].size(); ++at) {
        if (proved->lowered.programs[rank][at].verb != Verb::pass) continue;
        Lowered without = proved->lowered;
        Program& program = without.programs[rank];
        program.erase(program.begin() + static_cast<ptrdiff_t>(at));
        EXPECT_TRUE(prove(all, without)) << "n = " << n << " rank " << rank << " without " << at;
        Lowered fewer = proved->lowered;
        Instruction& pass = fewer.programs[rank][at];
        if (pass.src.size() < 2) continue;
        pass.src.pop_back();
        EXPECT_TRUE(prove(all, fewer)) << "n = " << n << " rank " << rank << " fewer at " << at;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryRowOnADevice, ::testing::ValuesIn(rows_with_data()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", to_string(row.param->collective),
                                              row.param->name);
                         });

Lowered lowered(Collective collective, const char* name, int n, bool packets = false) {
  const AlgorithmRow* const row = find_algorithm(collective, name);
  return lower_proved(collective, schedules(*row, n, 0), packets)->lowered;
}

// The kernel that others write by hand: reduce by loads, gather by stores.
TEST(Lowering, DirectAllReduceIsOnePassBetweenTwoMeetings) {
  const Lowered direct = lowered(Collective::all_reduce, "direct", 4);
  EXPECT_EQ(print(direct.programs[0][0]), "pass 0[0] 1[0] 2[0] 3[0] <- 0[0] 3[0] 2[0] 1[0]");
  EXPECT_EQ(print(Program(direct.programs[0].begin() + 1, direct.programs[0].end())),
            "post 3 #1\npost 2 #1\npost 1 #1\nwait 3 #1\nwait 2 #1\nwait 1 #1\n");
}

TEST(Lowering, PacketsNeedNoSignals) {
  for (const Program& program : lowered(Collective::all_reduce, "one_shot", 4, true).programs)
    for (const Instruction& one : program) EXPECT_EQ(one.verb, Verb::pass) << print(one);
}

// All that a rank sends of its own leaves before it waits for anything.
TEST(Lowering, PacketsLeaveBeforeOthersAreAwaited) {
  const Lowered pairwise = lowered(Collective::all_to_all, "pairwise", 5, true);
  for (const Program& program : pairwise.programs)
    for (size_t at = 0; at < 4; ++at) EXPECT_GE(program[at].dst[0].slot, 0) << print(program);
}

TEST(Lowering, IsTheSameOnEveryRank) {
  const auto once = lowered(Collective::all_reduce, "ring", 5);
  EXPECT_EQ(once.programs, lowered(Collective::all_reduce, "ring", 5).programs);
}

// ---- what the proof sees

Lowered exchange() { return lowered(Collective::all_reduce, "direct", 2); }
std::string flaw_of(const Lowered& damaged) {
  const AlgorithmRow* const row = find_algorithm(Collective::all_reduce, "direct");
  return prove(schedules(*row, 2, 0), damaged).value_or("");
}

TEST(DeviceProof, NamesTheFlaw) {
  ASSERT_EQ(flaw_of(exchange()), "");
  Lowered damaged = exchange();
  std::erase_if(damaged.programs[0], [](const auto& one) { return one.verb == Verb::post; });
  EXPECT_NE(flaw_of(damaged).find("deadlock: rank 1 instruction"), std::string::npos)
      << flaw_of(damaged);
  damaged = exchange();
  std::erase_if(damaged.programs[0], [](const auto& one) { return one.verb == Verb::wait; });
  EXPECT_NE(flaw_of(damaged).find("rank 0 ends while rank 1 may use its chunk"), std::string::npos)
      << flaw_of(damaged);
  damaged = exchange();
  for (Instruction& one : damaged.programs[0])
    if (one.verb == Verb::pass) one.src.resize(1);
  EXPECT_NE(flaw_of(damaged).find("ends with rank 0's chunk"), std::string::npos)
      << flaw_of(damaged);
}

TEST(DeviceProof, NeedsTheHello) {
  const AlgorithmRow* const row = find_algorithm(Collective::all_reduce, "direct");
  const auto all = schedules(*row, 2, 0);
  const auto flaw = prove(all, exchange(), false);
  ASSERT_TRUE(flaw);
  EXPECT_NE(flaw->find("may write at the same time"), std::string::npos) << *flaw;
}

TEST(DeviceProof, RefusesWhatIsNoProgram) {
  Lowered damaged = exchange();
  damaged.programs[0][0].src[0].rank = 7;
  EXPECT_NE(flaw_of(damaged).find("memory that there is not"), std::string::npos);
  damaged = exchange();
  damaged.programs[0][0].src[0].slot = 99;
  EXPECT_NE(flaw_of(damaged).find("a packet that there is not"), std::string::npos);
  damaged = exchange();
  damaged.programs[0][0].dst.clear();
  EXPECT_NE(flaw_of(damaged).find("no operand or no result"), std::string::npos);
  damaged = exchange();
  damaged.programs.pop_back();
  EXPECT_EQ(flaw_of(damaged), "1 programs for 2 ranks");
}

}  // namespace
}  // namespace ringwood::device

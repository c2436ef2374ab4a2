// The PTX that ships (kernel/kernels.cu), carried out instruction by instruction under a weak
// memory model: right, and without a race, in every interleaving that is tried. What this shows and
// what not: tests/ptx/memory.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/device/device_ptx.h"
#include "tests/support/places.h"

namespace ringwood::testing {
namespace {

// The set of kernels.cu that has the kernel.
const ptx::Module& module_with(const std::string& kernel) {
  static const auto modules = [] {
    std::vector<std::unique_ptr<ptx::Module>> all;
    for (int set = 0; set < 4; ++set)
      all.push_back(std::make_unique<ptx::Module>(
          ptx::read_ptx(fmt::format("{}/kernels-{}.ptx", RINGWOOD_KERNEL_FOLDER, set))));
    return all;
  }();
  for (const auto& module : modules) {
    const auto kernels = module->kernels();
    if (std::ranges::find(kernels, kernel) != kernels.end()) return *module;
  }
  throw std::runtime_error("no kernel " + kernel);
}

int g_cases = 0;
uint64_t g_instructions = 0, g_stale = 0;

std::string outcome(const DeviceCase& of, int rounds, int threads, uint64_t seed) {
  DeviceRanks ranks(of, rounds, seed);
  if (ranks.too_large()) return "";
  const PtxRun run = run_on_ptx(module_with(ranks.kernel()), ranks, rounds, threads, seed);
  ++g_cases;
  g_instructions += run.instructions;
  g_stale += run.stale;
  return run.wrong;
}
class Telling : public ::testing::Test {
 public:
  static void TearDownTestSuite() {
    fmt::print("{} runs, {} million instructions, {} stale reads\n", std::exchange(g_cases, 0),
               std::exchange(g_instructions, 0) / 1'000'000, std::exchange(g_stale, 0));
  }
};

class EveryRowByPtx : public Telling, public ::testing::WithParamInterface<const AlgorithmRow*> {};

TEST_P(EveryRowByPtx, IsRightInEveryInterleavingTried) {
  uint64_t seed = 1;
  for (const int n : {2, 3, 4, 5, 8})
    for (const bool packets : {false, true})
      for (int turn = 0; turn < 4; ++turn) {
        DeviceCase of{GetParam(),
                      n,
                      has_root(GetParam()->collective) ? n - 1 : 0,
                      DataType::float32,
                      ReduceOp::sum,
                      turn % 2 == 0 ? size_t{37} : size_t{1}};
        of.packets = packets;
        of.segments = 1 + turn;
        of.staged = turn == 1;
        if (is_possible(of)) {
          EXPECT_EQ(outcome(of, 3, 2 + turn % 2, ++seed), "");
        }
      }
}
INSTANTIATE_TEST_SUITE_P(Table, EveryRowByPtx, ::testing::ValuesIn(rows_with_data()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", to_string(row.param->collective),
                                              row.param->name);
                         });

class EveryTypeByPtx : public Telling, public ::testing::WithParamInterface<DataType> {};

// Conversions, folds and their bits, with numbers that break careless ones.
TEST_P(EveryTypeByPtx, HasTheBitsOfTheCpu) {
  uint64_t seed = 100;
  const std::pair<Collective, const char*> rows[] = {{Collective::all_reduce, "direct"},
                                                     {Collective::all_reduce, "ring"},
                                                     {Collective::all_reduce, "one_shot"},
                                                     {Collective::reduce_scatter, "pat"}};
  for (const auto& [collective, name] : rows)
    for (const OpTraits& op : kOpTraits)
      for (const bool packets : {false, true}) {
        DeviceCase of{find_algorithm(collective, name), 3, 0, GetParam(), op.op, 70};
        of.packets = packets;
        of.specials = true;
        if (is_possible(of)) {
          EXPECT_EQ(outcome(of, 2, 2, ++seed), "");
        }
      }
}
INSTANTIATE_TEST_SUITE_P(Types, EveryTypeByPtx, ::testing::ValuesIn([] {
                           std::vector<DataType> types;
                           for (const TypeTraits& type : kTypeTraits) types.push_back(type.type);
                           return types;
                         }()),
                         [](const auto& type) { return to_string(type.param); });

// The two schedules of small and of large messages, with many seeds and operations back to back.
class PtxInterleavings : public Telling {};
TEST_F(PtxInterleavings, OfTheRowsThatAreChosen) {
  for (const auto& [name, packets] :
       {std::pair{"one_shot", true}, {"direct", true}, {"direct", false}, {"ring", false}})
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      DeviceCase of{find_algorithm(Collective::all_reduce, name),
                    2 + static_cast<int>(seed % 3),
                    0,
                    DataType::float32,
                    ReduceOp::sum,
                    20};
      of.packets = packets;
      of.segments = 1 + static_cast<int>(seed % 2);
      EXPECT_EQ(outcome(of, 4, 2, seed), "");
      if (HasFailure()) return;
    }
}

TEST_F(PtxInterleavings, OfWindowsThatAreOld) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    DeviceCase of{find_algorithm(Collective::all_reduce, "one_shot"),
                  3,
                  0,
                  DataType::float32,
                  ReduceOp::sum,
                  9};
    of.packets = true;
    DeviceRanks ranks(of, 4, seed);
    ranks.age((uint64_t{1} << 31) - 1, (uint32_t{1} << 31) + 1);
    EXPECT_EQ(run_on_ptx(module_with(ranks.kernel()), ranks, 4, 2, seed).wrong, "");
  }
}

}  // namespace
}  // namespace ringwood::testing

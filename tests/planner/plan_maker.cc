// Every call that a communicator takes has a plan, however many ranks there are.
#include "collectives/planner/plan_maker.h"

#include <memory>

#include <gtest/gtest.h>

#include "collectives/tuner/model_tuner.h"

namespace ringwood {
namespace {

// Of what is scaled each rank has to know where a sum is complete, which nobody traces through the
// steps of a long ring among thousands.
TEST(PlanMaker, AveragesOfThousandsHaveAPlan) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "millions of steps are traced";
#endif
  constexpr int kRanks = 2048;
  MachineModel machine;
  for (int r = 0; r < kRanks; ++r) machine.hosts.push_back(r);
  PlanMaker maker(0, kRanks, std::make_shared<ModelTuner>(machine, Options{}), false);
  const auto key = [&](ReduceOp op) {
    const size_t count = size_t{256} << 20;  // 1 GiB
    return PlanKey{{Collective::all_reduce, DataType::float32, op, 0, count, {}}, {}};
  };
  // What is best for a sum has too many.
  EXPECT_EQ(maker.choose(key(ReduceOp::sum)).algorithm, "ring");
  const TuningChoice choice = maker.choose(key(ReduceOp::avg));
  EXPECT_NE(choice.algorithm, "ring");
  EXPECT_NO_THROW(maker.make(key(ReduceOp::avg), choice, 0)) << choice.algorithm;
}

}  // namespace
}  // namespace ringwood

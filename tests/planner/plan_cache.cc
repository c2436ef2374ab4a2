// How many plans are kept, and which make room for others.
#include "collectives/planner/plan_cache.h"

#include <memory>

#include <gtest/gtest.h>

#include "collectives/planner/group_planner.h"
#include "collectives/tuner/model_tuner.h"

namespace ringwood {
namespace {

// Plans of many ranks are large: bytes are limited, not only their number.
TEST(PlanCache, ForgetsWhatWasNotUsedForTheLongestTime) {
  const int n = 512;
  MachineModel machine;
  for (int rank = 0; rank < n; ++rank) machine.hosts.push_back(rank / 8);
  GroupPlanner planner(0, n, std::make_shared<ModelTuner>(machine, Options{}));
  PlanCache plans;
  const auto key_of = [](size_t count) {
    return PlanKey{{Collective::all_gather, DataType::float32, ReduceOp::sum, 0, count, {}},
                   {"ring", 8, {}}};
  };
  const auto add = [&](size_t count) {
    std::shared_ptr<const Plan> plan = planner.get(key_of(count));
    plans.add(key_of(count), plan);
    return plan;
  };
  const auto first = add(1 << 20);
  const size_t each = plans.bytes();
  EXPECT_EQ(each, bytes_of(*first));
  EXPECT_GT(each, first->steps.size() * 100);
  const std::weak_ptr<const Plan> second = add(2 << 20);
  const size_t fit = (size_t{64} << 20) / each;
  for (size_t i = 0; i < fit + 5; ++i) {
    add((3 << 20) + i);
    EXPECT_EQ(plans.find(key_of(1 << 20)), first) << "used again and again";
    EXPECT_LE(plans.bytes(), size_t{64} << 20);
  }
  EXPECT_EQ(plans.find(key_of(2 << 20)), nullptr);
  EXPECT_TRUE(second.expired()) << "nor does the planner keep it";
  EXPECT_LE(plans.size(), fit + 1);
  EXPECT_GE(plans.size(), fit - 1);
}

}  // namespace
}  // namespace ringwood

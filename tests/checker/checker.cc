// The checker of plans on what the product plans: every row of the table, every way to carry it
// out, and a group's uneven blocks. Nothing may be found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/checker/checker.h"
#include "collectives/planner/group_planner.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/plan_groups.h"
#include "tests/support/schedule_texts.h"

namespace ringwood::testing {
namespace {

constexpr int kRanks[] = {2, 3, 4, 5, 6, 7, 8, 9};

struct Numbers {
  DataType type;
  ReduceOp op;
  size_t count;
};

class CheckedRow : public ::testing::TestWithParam<const AlgorithmRow*> {
 protected:
  const AlgorithmRow& row() const { return *GetParam(); }

  void expect_sound(const PlanGroup& group) {
    const PlanCheck found = group.check(++seed_);
    EXPECT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
    ++checked_;
  }
  // Plans like the product's: of one round where that fits and no segments are asked for.
  void check(int n, const Places& places, const Numbers& numbers, PlanWay way) {
    const int root = has_root(row().collective) ? n / 2 : 0;
    const std::vector<Schedule> all = build_all(row(), places.where(0, n, root));
    const CollectiveArgs args =
        plan_args(row().collective, numbers.type, numbers.op, numbers.count, root);
    if (way.wire != WireFormat::exact && !prove_wire(row().collective, all, places.host).equal_bits)
      return;
    expect_sound(plan_group(all, args, row().name, way, places));
  }
  bool fits_round(int n, const Places& places) const {
    for (int r = 0; r < n; ++r)
      if (!fits_one_round(row().build(places.where(r, n, has_root(row().collective) ? n / 2 : 0))))
        return false;
    return true;
  }

  uint64_t seed_ = 0;
  int checked_ = 0;
};

std::vector<const AlgorithmRow*> rows() {
  std::vector<const AlgorithmRow*> all;
  for (const AlgorithmRow& row : algorithm_table()) all.push_back(&row);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Table, CheckedRow, ::testing::ValuesIn(rows()), [](const auto& info) {
  return fmt::format("{}_{}", to_string(info.param->collective), info.param->name);
});

std::vector<Numbers> numbers_of(Collective c, int n) {
  const auto ranks = static_cast<size_t>(n);
  std::vector<Numbers> all = {{DataType::float32, ReduceOp::sum, 1000003},
                              {DataType::uint8, ReduceOp::sum, 0},
                              {DataType::float64, ReduceOp::sum, ranks - 1},
                              {DataType::int32, ReduceOp::sum, 1}};
  if (!reduces(c)) return all;
  const Numbers more[] = {{DataType::float16, ReduceOp::sum, 20011},
                          {DataType::bfloat16, ReduceOp::avg, 150001},
                          {DataType::float32, ReduceOp::avg, 40000},
                          {DataType::complex64, ReduceOp::avg, 5},
                          {DataType::int64, ReduceOp::avg, 30001},
                          {DataType::int8, ReduceOp::avg, 77},
                          {DataType::float8_e5m2, ReduceOp::premul_sum, 200003},
                          {DataType::float64, ReduceOp::premul_sum, 4001},
                          {DataType::float16, ReduceOp::max, 9001},
                          {DataType::bool8, ReduceOp::bxor, 70001}};
  std::ranges::copy_if(more, std::back_inserter(all), [c](const Numbers& numbers) {
    return supports(c, numbers.type, numbers.op);
  });
  return all;
}

TEST_P(CheckedRow, IsSoundInEveryWay) {
  for (const int n : kRanks) {
    const auto places = places_for(row(), n);
    if (!places) continue;
    for (const Numbers& numbers : numbers_of(row().collective, n)) {
      check(n, *places, numbers, {});
      check(n, *places, numbers, {.segments = 3, .published = n > 2, .apart = false});
      if (n <= 6)
        check(n, *places, numbers,
              {.segments = n % 3 + 1, .slots = n == 4, .memory = MemoryKind::device});
      if (numbers.count * size_of(numbers.type) <= 16384 && fits_round(n, *places))
        for (const bool slots : {false, true})
          check(n, *places, numbers, {.protocol = Protocol::one_round, .slots = slots});
      if (numbers.count == 20011 || !reduces(row().collective))
        check(n, *places, numbers, {.segments = 2, .slots = true});
    }
  }
  EXPECT_GT(checked_, 0);
}

TEST_P(CheckedRow, IsSoundInEveryWireFormat) {
  if (!may_encode(row().collective, DataType::float32, ReduceOp::sum)) return;
  for (const int n : kRanks)
    for (const int ranks_on_host : {1, 2, 3}) {
      Places places;
      for (int r = 0; r < n; ++r) places.host.push_back(r / ranks_on_host);
      if (places.host.back() == 0 || !row().accepts(places.where(0, n, 0))) continue;
      for (const WireFormat wire : {WireFormat::bf16, WireFormat::int8}) {
        for (const MemoryKind memory : {MemoryKind::host, MemoryKind::device})
          check(n, places, {DataType::float32, ReduceOp::sum, 100003},
                {.wire = wire, .memory = memory});
        if (may_encode(row().collective, DataType::float32, ReduceOp::avg))
          check(n, places, {DataType::float32, ReduceOp::avg, 3000001},
                {.segments = 2, .wire = wire});
      }
    }
}

TEST_P(CheckedRow, IsSoundWithUnevenBlocks) {
  if (!in_blocks(row().collective) || row().sizes == BlockSizes::equal) return;
  for (const int n : kRanks) {
    const auto places = places_for(row(), n);
    if (!places) continue;
    for (const auto& [segments, memory] :
         {std::pair{1, MemoryKind::host}, {2, MemoryKind::host}, {2, MemoryKind::device}}) {
      PlanGroup group{fmt::format("{} of {} uneven ranks", row().name, n), *places, {}, {}};
      for (int r = 0; r < n; ++r) {
        const int root = has_root(row().collective) ? n - 1 : 0;
        CollectiveArgs args =
            plan_args(row().collective, DataType::float32, ReduceOp::sum, 0, root);
        set_uneven_blocks(args, r, n);
        group.proved.push_back(row().build(places->where(r, n, root)));
        group.plans.push_back(make_plan(group.proved.back(), args, row().name, segments,
                                        Protocol::queued, {}, nullptr, {}, memory));
      }
      expect_sound(group);
    }
  }
}

// Rows that differ, and a span whose chunks do.
TEST(Checker, FindsNothingInSchedulesOfTheUsersOwn) {
  for (const auto& all : {parsed(kOtherAccumulations), parsed(kUnlikeChunks)})
    for (const Numbers& numbers : numbers_of(Collective::all_reduce, 3)) {
      const CollectiveArgs args =
          plan_args(Collective::all_reduce, numbers.type, numbers.op, numbers.count, 0);
      const PlanGroup group = plan_group(all, args, "test", {});
      const PlanCheck found = group.check();
      EXPECT_EQ(found.result, PlanCheck::Result::sound) << group.name << ": " << found.words;
    }
}

// A group checks each kind of plan once, of the ranks and the placement that it has.
TEST(Checker, IsAskedForEachKindOfPlan) {
  GroupPlanner plans(1, 4,
                     std::make_shared<ModelTuner>(default_machine_model(4, false), Options{}));
  const auto get = [&](ReduceOp op, size_t count, int segments) {
    const CollectiveArgs args = plan_args(Collective::all_reduce, DataType::float32, op, count, 0);
    (void)plans.get({args, {"ring", segments}});
    return plans.checked();
  };
  EXPECT_EQ(get(ReduceOp::sum, 100000, 1), 1u);
  EXPECT_EQ(get(ReduceOp::sum, 200000, 1), 1u) << "of the same kind";
  EXPECT_EQ(get(ReduceOp::avg, 100000, 1), 2u);
  EXPECT_EQ(get(ReduceOp::sum, 100000, 2), 3u);
  EXPECT_EQ(get(ReduceOp::sum, 1 << 20, 64), 3u) << "too large to be checked";
}

// A round of Bruck's all-to-all is one message of all its blocks.
TEST(Checker, PackedBlocksTravelAsOne) {
  const int n = 8;
  const AlgorithmRow& row = *find_algorithm(Collective::all_to_all, "bruck");
  const PlanGroup group =
      plan_group(build_all(row, {0, n, 0}),
                 plan_args(row.collective, DataType::float32, ReduceOp::sum, 25, 0), "bruck", {});
  for (const auto& plan : group.plans) {
    std::vector<size_t> sent;
    for (const BoundStep& step : plan->steps)
      if (step.kind == StepKind::send) sent.push_back(step.bytes);
    EXPECT_EQ(sent, std::vector<size_t>(3, n / 2 * 100));
  }
}

TEST(Checker, SaysWhatIsTooLarge) {
  const AlgorithmRow& row = *find_algorithm(Collective::all_reduce, "ring");
  const PlanGroup group =
      plan_group(build_all(row, {0, 4, 0}),
                 plan_args(row.collective, DataType::float32, ReduceOp::sum, 1000, 0), "ring", {});
  const std::vector<std::shared_ptr<const Plan>> plans(group.plans.begin(), group.plans.end());
  PlanFacts facts;
  facts.budget = 47;  // 4 ranks send and receive 6 times
  const PlanCheck found = check_plans(plans, group.proved, facts);
  EXPECT_EQ(found.result, PlanCheck::Result::too_large);
  EXPECT_NE(found.words.find("48 steps of 4 ranks"), std::string::npos) << found.words;
  facts.budget = 48;
  EXPECT_EQ(check_plans(plans, group.proved, facts).result, PlanCheck::Result::sound);
}

}  // namespace
}  // namespace ringwood::testing

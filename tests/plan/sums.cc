// What schedules add (sums.h), of the table and of a user's own, and how their plans round and
// scale it: the ranks of any proved schedule end with the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/executors/plan_runner.h"
#include "collectives/plan/sums.h"
#include "collectives/plan/wire_schedule.h"
#include "collectives/verify/verify.h"
#include "tests/support/meshes.h"
#include "tests/support/patience.h"
#include "tests/support/schedule_texts.h"
#include "tests/support/values.h"

namespace ringwood::testing {
namespace {

// An all_reduce on links of one process, every rank a step at a time; `data` by rank.
void run(std::vector<Schedule> all, const CollectiveArgs& args, const Sums* sums,
         std::vector<std::vector<std::byte>>& data) {
  const size_t n = all.size();
  auto meshes = loopback_meshes(static_cast<int>(n), LoopbackFaults{});
  std::vector<std::unique_ptr<PlanRunner>> executors;
  std::vector<std::shared_ptr<Plan>> plans;
  std::vector<void*> buffers;
  for (size_t r = 0; r < n; ++r) {
    executors.push_back(std::make_unique<PlanRunner>(*meshes[r]));
    if (sums && sums->apart) all[r] = with_roundings(all[r], args.collective, {});
    plans.push_back(make_plan(all[r], args, "test", 1, Protocol::queued, {}, sums));
    buffers.push_back(data[r].data());
  }
  for (size_t r = 0; r < n; ++r)
    executors[r]->start({plans[r].get(), plans[r]->fingerprint, {&buffers[r], 1}, {}, {}, false});
  const Deadline deadline = patiently();
  for (bool idle = false; !idle && !deadline.passed();) {
    idle = true;
    for (auto& executor : executors) {
      bool progressed = false;
      if (executor->idle()) continue;
      idle = false;
      if (Status s = executor->step(progressed); !s) throw std::runtime_error(s.error().message());
    }
  }
  for (auto& executor : executors) ASSERT_TRUE(executor->idle());
}

CollectiveArgs args_of(DataType type, ReduceOp op, size_t count) {
  CollectiveArgs args;
  args.collective = Collective::all_reduce;
  args.type = type;
  args.op = op;
  args.count = count;
  return args;
}

std::vector<std::vector<std::byte>> numbers(DataType type, size_t count,
                                            const std::vector<double>& of_rank) {
  std::vector<std::vector<std::byte>> data;
  for (const double number : of_rank) {
    data.emplace_back(count * size_of(type));
    for (size_t i = 0; i < count; ++i) put_value(data.back().data(), i, type, number);
  }
  return data;
}

// 1 + 2^-8 + 2^-8 is a bf16 number, 1 + 2^-8 is none.
TEST(Sums, OfOtherAccumulationsAreRoundedAtEachAddition) {
  const std::vector<Schedule> all = parsed(kOtherAccumulations);
  ASSERT_EQ(verify(Collective::all_reduce, all), std::nullopt);
  const Sums sums = trace_sums(Collective::all_reduce, all);
  EXPECT_FALSE(sums.accumulations_agree);
  EXPECT_FALSE(accumulations_agree(Collective::all_reduce, all));
  const std::vector<double> operands = {1, 0x1p-8, 0x1p-8};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
    for (const size_t count : {size_t{7}, size_t{30000}}) {
      const CollectiveArgs args = args_of(DataType::bfloat16, op, count);
      auto data = numbers(args.type, count, operands);
      run(all, args, &sums, data);
      EXPECT_EQ(data[0], data[1]) << to_string(op);
      EXPECT_EQ(data[0], data[2]) << to_string(op);
    }
  // Rows that are not looked at.
  auto data = numbers(DataType::bfloat16, 7, operands);
  run(all, args_of(DataType::bfloat16, ReduceOp::sum, 7), nullptr, data);
  EXPECT_NE(data[0], data[1]) << "this test proves nothing";
}

TEST(Sums, OfUnlikeChunksAreTakenApart) {
  const std::vector<Schedule> all = parsed(kUnlikeChunks);
  ASSERT_EQ(verify(Collective::all_reduce, all), std::nullopt);
  const Sums sums = trace_sums(Collective::all_reduce, all);
  EXPECT_TRUE(sums.apart);
  EXPECT_EQ(accumulations_agree(Collective::all_reduce, all), sums.accumulations_agree);
  for (const DataType type : {DataType::float16, DataType::float32, DataType::int32}) {
    auto data = numbers(type, 10, {3, 6, 12});
    run(all, args_of(type, ReduceOp::avg, 10), &sums, data);
    for (const auto& bytes : data)
      for (size_t i = 0; i < 10; ++i) EXPECT_EQ(get_value(bytes.data(), i, type), 7);
  }
}

// Every schedule of the table runs as it was written, and in the same accumulations on all ranks.
TEST(Sums, OfTheTableAreAlike) {
  for (const AlgorithmRow& row : algorithm_table())
    for (int n = 2; n <= 17; ++n)
      for (const bool apart : {false, true}) {
        std::vector<int> hosts;
        for (int r = 0; apart && r < n; ++r) hosts.push_back(r % 3);
        const Where where{0, n, n / 2, hosts};
        if (!reduces(row.collective) || !row.accepts(where)) continue;
        const Sums sums = trace_sums(row.collective, build_all(row, where));
        EXPECT_FALSE(sums.apart) << to_string(row.collective) << " " << row.name << " " << n;
        EXPECT_TRUE(sums.accumulations_agree)
            << to_string(row.collective) << " " << row.name << " " << n;
      }
}

}  // namespace
}  // namespace ringwood::testing

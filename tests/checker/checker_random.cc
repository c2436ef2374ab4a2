// The checker on the plans of random schedules: nothing may be found in what the passes make of
// any. seeds.h has how to go on for an hour.
#include <gtest/gtest.h>

#include "collectives/verify/verify.h"
#include "tests/support/random_programs.h"
#include "tests/support/random_ways.h"
#include "tests/support/seeds.h"

namespace ringwood::testing {
namespace {

constexpr uint64_t kSeeds = 1500;

void expect_sound(const PlanGroup& group, uint64_t seed) {
  const PlanCheck check = group.check(seed + 1);
  std::string texts;
  for (const Schedule& s : group.proved) texts += print(s);
  EXPECT_EQ(check.result, PlanCheck::Result::sound)
      << "seed " << seed << ", " << group.name << ": " << check.words << "\n"
      << texts;
}

// Any mixture of messages and local steps, in each of the ways that its args allows. What the
// ranks end with is no sum of all, so nothing is scaled, and accumulations are as they come.
TEST(CheckerOnRandom, ProgramsFindsNothing) {
  for_seeds(kSeeds, [](uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const int n = 2 + static_cast<int>(random() % 5);
    const size_t count = random_count(random);
    auto program = random_program(random, n, 1, 1 + static_cast<int>(random() % 40));
    // A chunk that stays as it is, so that no two ranks end alike by chance: their bits would have
    // to be equal.
    for (Schedule& s : program.schedules) s = within(0, s.chunks + 1, s);
    constexpr DataType kTypes[] = {DataType::int64, DataType::float16, DataType::float32};
    const DataType type = kTypes[random() % 3];
    const CollectiveArgs args = plan_args(Collective::all_reduce, type, ReduceOp::sum, count, 0);
    PlanWay way;
    way.segments = 1 + static_cast<int>(random() % 3);
    way.published = random() % 2;
    way.traces = false;
    if (way.segments == 1 && count * size_of(type) <= 16384 && fits_round(program.schedules)) {
      way.protocol = Protocol::one_round;
      way.published = false;  // as the plan cache has it
    }
    way.slots = random() % 3 == 0;
    if (way.protocol == Protocol::queued && random() % 4 == 0) way.memory = MemoryKind::device;
    way.apart = random() % 2;
    const Places places = random_hosts(random, n);
    if (type == DataType::float32 && way.protocol == Protocol::queued && random() % 2) {
      way.wire = random() % 2 ? WireFormat::bf16 : WireFormat::int8;
      way.published = false;
    }
    expect_sound(plan_group(program.schedules, args, "test", way, places), seed);
  });
}

TEST(CheckerOnRandom, AllReducesFindsNothing) {
  for_seeds(kSeeds, [](uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const int n = 2 + static_cast<int>(random() % 6);
    const std::vector<Schedule> all = random_all_reduce(random, n);
    ASSERT_EQ(verify(Collective::all_reduce, all), std::nullopt) << "seed " << seed;
    constexpr DataType kTypes[] = {DataType::float32, DataType::bfloat16, DataType::int32,
                                   DataType::complex64};
    constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum};
    const DataType type = kTypes[random() % 4];
    ReduceOp op = kOps[random() % 3];
    if (!supports(type, op)) op = ReduceOp::avg;
    PlanWay way;
    way.segments = 1 + static_cast<int>(random() % 3);
    way.published = random() % 2;
    way.apart = random() % 2;
    const Places places = random_hosts(random, n);
    if (may_encode(Collective::all_reduce, type, op) && random() % 2 &&
        prove_wire(Collective::all_reduce, all, places.host).equal_bits) {
      way.wire = random() % 2 ? WireFormat::bf16 : WireFormat::int8;
      way.published = false;
    }
    const CollectiveArgs args =
        plan_args(Collective::all_reduce, type, op, random_count(random), 0);
    expect_sound(plan_group(all, args, "test", way, places), seed);
  });
}

}  // namespace
}  // namespace ringwood::testing

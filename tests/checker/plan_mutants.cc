// The checker against planted faults: none may survive, and each must have found a place.
#include <gtest/gtest.h>

#include "tests/checker/plan_faults.h"
#include "tests/support/schedule_texts.h"

namespace ringwood::testing {
namespace {

constexpr Collective kAllReduce = Collective::all_reduce;

PlanGroup of_table(Collective collective, const char* name, int n, DataType type, ReduceOp op,
                   size_t count, const PlanWay& way = {}, const Places& places = {}) {
  const int root = has_root(collective) ? n / 2 : 0;
  const AlgorithmRow& row = *find_algorithm(collective, name);
  return plan_group(build_all(row, places.where(0, n, root)),
                    plan_args(collective, type, op, count, root), name, way, places);
}

PlanGroup of_texts(Collective collective, const std::vector<const char*>& texts, size_t count) {
  std::vector<Schedule> all;
  for (const char* text : texts) all.push_back(parse_schedule(text));
  return plan_group(std::move(all),
                    plan_args(collective, DataType::float32, ReduceOp::sum, count, 0), "test", {});
}

// What rank 0 gives to rank 1, who returns it, goes to rank 2 as well.
PlanGroup exposed_to_two() {
  return of_texts(kAllReduce,
                  {"schedule rank 0 of 3 chunks 1\nsend 2 [0]\nsend 1 [0]\nrecv 1 [0]",
                   "schedule rank 1 of 3 chunks 1\nrecv_reduce 0 [0]\nsend 0 [0]",
                   "schedule rank 2 of 3 chunks 1\nrecv_reduce 0 [0]"},
                  10000);
}

// Rank 0 gets its own block back.
PlanGroup own_block_written() {
  return of_texts(Collective::all_gather,
                  {"schedule rank 0 of 2 chunks 2\nsend 1 [0]\nrecv 1 [1]\nrecv 1 [0]",
                   "schedule rank 1 of 2 chunks 2\nsend 0 [1]\nrecv 0 [0]\nsend 0 [0]"},
                  10000);
}

PlanGroup of_uneven_blocks(Collective collective, const char* name, int n,
                           const Places& places = {}) {
  PlanGroup group{fmt::format("{} of {} uneven ranks", name, n), places, {}, {}};
  for (int r = 0; r < n; ++r) {
    CollectiveArgs args = plan_args(collective, DataType::float32, ReduceOp::sum, 0, n / 2);
    set_uneven_blocks(args, r, n);
    group.proved.push_back(find_algorithm(collective, name)->build({r, n, n / 2}));
    group.plans.push_back(make_plan(group.proved.back(), args, name, 1, Protocol::queued,
                                    {WireFormat::exact, places.host}));
  }
  return group;
}

std::vector<PlanGroup> reducing_groups() {
  using enum DataType;
  const auto sum = ReduceOp::sum, avg = ReduceOp::avg;
  const PlanWay round{.protocol = Protocol::one_round};
  std::vector<PlanGroup> all;
  all.push_back(of_table(kAllReduce, "direct", 4, float32, sum, 100003));
  all.push_back(of_table(kAllReduce, "direct", 4, float16, sum, 100003, {.segments = 3}));
  all.push_back(of_table(kAllReduce, "direct", 3, float32, avg, 40000));
  all.push_back(of_table(kAllReduce, "direct", 5, float8_e5m2, ReduceOp::premul_sum, 200003));
  all.push_back(of_table(kAllReduce, "ring", 4, bfloat16, avg, 50001));
  all.push_back(of_table(kAllReduce, "ring", 3, float32, avg, 1001));
  all.push_back(of_table(kAllReduce, "ring", 3, int32, avg, 1001));
  all.push_back(of_table(kAllReduce, "rank_order", 4, float32, sum, 80001, {.published = true}));
  all.push_back(of_table(kAllReduce, "halving_doubling", 6, int32, sum, 4001));
  all.push_back(of_table(kAllReduce, "recursive_doubling", 5, float16, avg, 1001));
  all.push_back(plan_group(parsed(kOtherAccumulations),
                           plan_args(kAllReduce, bfloat16, sum, 30000, 0), "test", {}));
  all.push_back(of_table(kAllReduce, "one_shot", 4, float32, sum, 1000, round));
  all.push_back(of_table(kAllReduce, "exchange", 2, float16, avg, 1000, round));
  all.push_back(of_table(kAllReduce, "exchange", 2, float32, sum, 5000, round));
  all.push_back(of_table(kAllReduce, "one_shot", 3, bfloat16, sum, 1000,
                         {.protocol = Protocol::one_round, .slots = true}));
  all.push_back(of_table(kAllReduce, "direct", 3, float32, sum, 20000, {.slots = true}));
  all.push_back(of_table(Collective::reduce_scatter, "ring", 4, float16, sum, 1001));
  all.push_back(of_table(Collective::reduce_scatter, "direct", 3, int64, avg, 1001));
  all.push_back(of_table(Collective::reduce, "knomial", 6, float32, avg, 1001));
  return all;
}

std::vector<PlanGroup> moving_groups() {
  using enum DataType;
  const auto sum = ReduceOp::sum;
  std::vector<PlanGroup> all;
  all.push_back(of_table(Collective::broadcast, "chain", 3, float32, sum, 3001, {.segments = 3}));
  all.push_back(
      of_table(Collective::broadcast, "linear", 3, float32, sum, 9001, {.published = true}));
  all.push_back(of_table(Collective::all_gather, "ring", 4, float32, sum, 1001));
  all.push_back(of_table(Collective::all_gather, "bruck", 5, uint8, sum, 1001, {.segments = 2}));
  all.push_back(of_table(Collective::all_gather, "direct", 3, uint8, sum, 1001,
                         {.protocol = Protocol::one_round}));
  all.push_back(of_table(Collective::all_to_all, "pairwise", 4, float32, sum, 1001));
  all.push_back(of_table(Collective::all_to_all, "bruck", 6, float32, sum, 1001, {.segments = 2}));
  all.push_back(of_table(Collective::gather, "linear", 3, float32, sum, 1001));
  all.push_back(of_table(Collective::scatter, "linear", 3, float32, sum, 1001, {.segments = 2}));
  all.push_back(of_table(Collective::barrier, "dissemination", 5, uint8, sum, 0));
  all.push_back(of_table(Collective::barrier, "dissemination", 3, uint8, sum, 0,
                         {.protocol = Protocol::one_round}));
  all.push_back(of_uneven_blocks(Collective::all_to_all, "pairwise", 4));
  all.push_back(of_uneven_blocks(Collective::gather, "linear", 3));
  all.push_back(of_uneven_blocks(Collective::reduce_scatter, "direct", 4));
  all.push_back(exposed_to_two());
  all.push_back(own_block_written());
  return all;
}

std::vector<PlanGroup> encoded_groups() {
  const auto type = DataType::float32;
  const Places pairs{{0, 0, 1, 1}, {}}, apart{{0, 1, 2}, {}};
  std::vector<PlanGroup> all;
  all.push_back(of_table(kAllReduce, "direct", 4, type, ReduceOp::sum, 100003,
                         {.wire = WireFormat::bf16, .apart = false}, pairs));
  all.push_back(of_table(kAllReduce, "ring", 3, type, ReduceOp::avg, 6000001,
                         {.segments = 4, .wire = WireFormat::int8}, apart));
  all.push_back(of_table(Collective::reduce_scatter, "direct", 4, type, ReduceOp::sum, 10003,
                         {.wire = WireFormat::int8}, pairs));
  return all;
}

// Of ranks on hosts, which agree by the hosts' leaders.
std::vector<PlanGroup> groups_on_hosts() {
  const auto type = DataType::float32;
  const Places threes{{0, 0, 0, 1, 1, 1}, {}}, in_turn{{0, 1, 0, 1, 0}, {}};
  std::vector<PlanGroup> all;
  all.push_back(of_table(Collective::barrier, "dissemination", 6, DataType::uint8, ReduceOp::sum, 0,
                         {.apart = false}, threes));
  all.push_back(
      of_table(kAllReduce, "ring", 5, type, ReduceOp::sum, 50001, {.apart = false}, in_turn));
  all.push_back(of_uneven_blocks(Collective::all_to_all, "pairwise", 5, in_turn));
  // Its leaders begin early.
  for (const DataType small : {type, DataType::float16})
    all.push_back(of_table(kAllReduce, "hierarchical_leaders", 6, small, ReduceOp::avg, 1001,
                           {.apart = false}, threes));
  return all;
}

std::vector<PlanGroup> groups_on_devices() {
  const auto type = DataType::float32;
  const auto sum = ReduceOp::sum;
  const Places pairs{{0, 0, 1, 1}, {}};
  const auto device = MemoryKind::device;
  std::vector<PlanGroup> all;
  all.push_back(of_table(kAllReduce, "direct", 3, type, sum, 30001, {.memory = device}));
  all.push_back(of_table(kAllReduce, "ring", 3, DataType::bfloat16, ReduceOp::avg, 5001,
                         {.segments = 2, .memory = device}));
  all.push_back(of_table(kAllReduce, "direct", 4, type, sum, 10003,
                         {.wire = WireFormat::bf16, .memory = device}, pairs));
  all.push_back(of_table(Collective::all_gather, "ring", 3, type, sum, 1001, {.memory = device}));
  all.push_back(of_table(Collective::reduce_scatter, "direct", 3, type, sum, 1001,
                         {.slots = true, .memory = device}));
  all.push_back(of_table(Collective::gather, "linear", 3, type, sum, 1001, {.memory = device}));
  return all;
}

std::vector<PlanGroup> groups() {
  std::vector<PlanGroup> all = reducing_groups();
  for (PlanGroup& group : groups_on_hosts()) all.push_back(std::move(group));
  for (PlanGroup& group : moving_groups()) all.push_back(std::move(group));
  for (PlanGroup& group : encoded_groups()) all.push_back(std::move(group));
  for (PlanGroup& group : groups_on_devices()) all.push_back(std::move(group));
  return all;
}

PlanGroup copy_of(const PlanGroup& group) {
  PlanGroup copy = group;
  for (auto& plan : copy.plans) plan = std::make_shared<Plan>(*plan);
  return copy;
}

void expect_found(const std::vector<PlanFault>& faults) {
  const std::vector<PlanGroup> all = groups();
  for (const PlanGroup& group : all) {
    const PlanCheck check = group.check();
    ASSERT_EQ(check.result, PlanCheck::Result::sound) << group.name << ": " << check.words;
  }
  for (const PlanFault& fault : faults) {
    size_t planted = 0;
    for (const PlanGroup& group : all) {
      const std::vector<PlanEdit> edits = fault.edits(group);
      for (size_t k = 0; k < edits.size(); ++k) {
        PlanGroup mutant = copy_of(group);
        edits[k](mutant);
        ++planted;
        const PlanCheck check = mutant.check(k);
        EXPECT_EQ(check.result, PlanCheck::Result::faulty)
            << fault.name << ", place " << k << " of " << edits.size() << " in " << group.name;
        EXPECT_TRUE(!check.words.empty() && check.words.find('\n') == std::string::npos);
      }
    }
    EXPECT_GT(planted, 0u) << fault.name << " has no place";
  }
}

TEST(PlanMutants, OfOrderAreFound) { expect_found(order_faults()); }
TEST(PlanMutants, OfNumbersAreFound) { expect_found(number_faults()); }
TEST(PlanMutants, OfLinksAreFound) { expect_found(link_faults()); }
TEST(PlanMutants, OfProtocolAreFound) { expect_found(protocol_faults()); }
TEST(PlanMutants, OfDevicesAreFound) { expect_found(device_faults()); }

}  // namespace
}  // namespace ringwood::testing

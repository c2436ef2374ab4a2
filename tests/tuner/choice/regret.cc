// What is chosen, against what every candidate takes where all ranks are simulated: regret, whether
// the answer depends on who asks or has asked what, and how much work an answer takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "collectives/tuner/choice/built_rows.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/choice/judge.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/simulation/simulated.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

MachineModel hosts_of_8(int n) {
  MachineModel machine;
  machine.cores = 8;
  return on_hosts(machine, n / 8, 8);
}

ModelQuery query(Collective collective, size_t bytes, const MachineModel& machine) {
  ModelQuery q;
  q.collective = collective;
  q.n = static_cast<int>(machine.hosts.size());
  q.bytes = load_of(collective, bytes, q.n).bytes;
  q.machine = &machine;
  return q;
}

// A slow host is one with slow ports.
double all_ranks_take(const ModelQuery& q, const AlgorithmRow& row, int segments) {
  Load load{q.collective, q.bytes, 4};
  load.agreement = load.out_of_place = true;
  MachineModel machine = *q.machine;
  Faults faults;
  for (const HostException& one : std::exchange(machine.net.exceptions, {}))
    faults.ports.push_back({one.host, one.rail, one.rate, PortWay::both});
  const Network network(machine, q.n, {}, faults);
  EventsRequest request;
  request.faults = &faults;
  return run_events(bind_traffic(request_of(row, load, machine, segments), machine), machine,
                    network, request)
      .seconds;
}

// Of all rows in one segment and in those that the choice considers. A row whose busiest resource
// has more to do than `chosen` takes cannot be the best.
double min_of_all(const ModelQuery& q, double chosen) {
  CandidateQuery query;
  query.collective = q.collective;
  query.bytes = q.bytes;
  query.n = q.n;
  RowProfiles profiles(*q.machine, q.n);
  double least = chosen;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (row.collective != q.collective) continue;
    const RowBuilder builder(query, *q.machine, profiles);
    auto built = builder.build(row, WireFormat::exact);
    if (!built || !built->why_not.empty()) continue;
    builder.bind(*built);
    if (built->bounds.resource > least) continue;
    for (const int segments : built->segments)
      least = std::min(least, all_ranks_take(q, row, segments));
  }
  return least;
}

TEST(Regret, NothingIsMuchFasterThanWhatIsChosen) {
  struct Case {
    Collective collective;
    size_t bytes;
    int n = 64;
    bool rdma = false, one_host = false;
  };
  std::vector<Case> cases = {
      {Collective::reduce_scatter, 16 << 20}, {Collective::broadcast, 16 << 20},
      {Collective::all_reduce, 1 << 20},      {Collective::all_gather, 4 << 20},
      {Collective::reduce_scatter, 64 << 20}, {Collective::reduce_scatter, 4 << 20},
      {Collective::broadcast, 256 << 10},     {Collective::broadcast, 64 << 20},
      {Collective::broadcast, 1 << 20, 256},  {Collective::reduce_scatter, 64 << 10, 256, true},
      {Collective::reduce, 12 << 20, 8},      {Collective::broadcast, 640 << 10, 96, false, true}};
  if (kSanitized) cases.resize(2);
  for (const Case& c : cases) {
    MachineModel machine = hosts_of_8(c.n);
    if (c.one_host) machine.cores = c.n;
    if (c.one_host) machine = on_hosts(machine, 1, c.n);
    if (c.rdma) use_rdma_prior(machine);
    if (c.rdma) machine.net.nic = 50e9;
    const ModelQuery q = query(c.collective, c.bytes, machine);
    const TuningChoice choice = choose(q, {});
    const double chosen =
        all_ranks_take(q, *find_algorithm(c.collective, choice.algorithm), choice.segments);
    EXPECT_LE(chosen, 1.15 * min_of_all(q, chosen))
        << to_string(c.collective) << " " << c.bytes << " " << c.n << ": " << choice.algorithm
        << "/" << choice.segments;
  }
}

// Estimates are scaled by how far the rows that were simulated were above their bounds: a row that
// is not above them is looked at all the same.
TEST(Regret, ARowThatIsNearItsBoundsIsNotOverlooked) {
  const MachineModel machine = hosts_of_8(32);
  const ModelQuery q = query(Collective::all_reduce, 16 << 20, machine);
  int found = 0;
  for (const Candidate& c : explain(q, {})) {
    if (c.algorithm != "ring" || c.segments > 1) continue;
    EXPECT_TRUE(c.simulated);
    const double seconds = all_ranks_take(q, *find_algorithm(q.collective, "ring"), 1);
    EXPECT_NEAR(c.seconds, seconds, 0.01 * seconds);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

// What one host of many delays is neither what it delays alone, nor what it would if all were slow.
TEST(Regret, ASlowHostIsNoSlowGroup) {
  struct Case {
    Collective collective;
    size_t bytes;
    int n;
  };
  std::vector<Case> cases = {{Collective::reduce_scatter, 256 << 10, 64},
                             {Collective::all_reduce, 256 << 10, 128},
                             {Collective::broadcast, 64 << 10, 128}};
  if (kSanitized) cases.resize(1);
  for (const Case& c : cases)
    for (const int slow : {1, c.n / 8 - 1}) {
      MachineModel machine = hosts_of_8(c.n);
      machine.net.exceptions = {{slow, 0.5, "slow", -1}};
      const ModelQuery q = query(c.collective, c.bytes, machine);
      const std::vector<Candidate> all = explain(q, {});
      const auto chosen =
          std::find_if(all.begin(), all.end(), [](const Candidate& one) { return one.chosen; });
      double least = std::numeric_limits<double>::infinity(), its = 0;
      for (const Candidate& one : all) {
        if (one.segments > 1 || one.seconds > 1.6 * chosen->seconds) continue;
        const double seconds =
            all_ranks_take(q, *find_algorithm(c.collective, one.algorithm), one.segments);
        EXPECT_NEAR(one.seconds / seconds, 1, 0.2)
            << to_string(c.collective) << " " << c.n << " " << one.algorithm << ", host " << slow;
        least = std::min(least, seconds);
        if (one.algorithm == chosen->algorithm) its = seconds;
      }
      EXPECT_LE(its, 1.15 * least) << to_string(c.collective) << " of " << c.n << ", host " << slow;
    }
}

// Work is counted, so this does not depend on the machine that runs it; at 30 to 100 ns each. What
// takes long itself is worth more of it.
TEST(ChoiceWork, ANewShapeTakesMilliseconds) {
  const auto most = [](size_t bytes) -> size_t {
    return bytes <= 1 << 10 ? 200000 : bytes <= 1 << 20 ? 800000 : 900000;
  };
  for (const int n : kSanitized ? std::vector{128} : std::vector{128, 1024, 16384}) {
    const MachineModel machine = hosts_of_8(n);
    RowProfiles profiles(machine, n);
    for (const Collective collective :
         {Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast})
      for (const size_t bytes : {size_t{1} << 10, size_t{1} << 20, size_t{64} << 20}) {
        const size_t before = profiles.work();
        choose(query(collective, bytes, machine), {}, "", 0, &profiles);
        EXPECT_LE(profiles.work() - before, most(bytes))
            << to_string(collective) << " " << bytes << " " << n;
        EXPECT_GT(profiles.work(), before);
      }
  }
}

// Uneven hosts of up to eight ranks, numbered host by host, dealt out in turn, or in any order.
std::vector<int> random_places(std::mt19937& random) {
  std::vector<std::vector<int>> left;
  for (int h = 0, hosts = 2 + static_cast<int>(random() % 12); h < hosts; ++h)
    left.emplace_back(1 + random() % 8, h);
  std::vector<int> dealt, in_order;
  for (bool some = true; some;) {
    some = false;
    for (auto& host : left) {
      if (host.empty()) continue;
      dealt.push_back(host.back());
      host.pop_back();
      some = true;
    }
  }
  in_order = dealt;
  std::sort(in_order.begin(), in_order.end());
  std::vector<int> places = random() % 2 ? dealt : in_order;
  if (random() % 3 == 0)
    for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[random() % i]);
  std::vector<int> numbers(left.size(), -1);
  int next = 0;
  for (int& place : places) {
    int& number = numbers[static_cast<size_t>(place)];
    if (number < 0) number = next++;
    place = number;
  }
  return places;
}

// A rank has been told the parameters, and has asked something else before.
TEST(OneAnswer, OnEveryRankOfARandomPlacement) {
  constexpr Collective kSome[] = {Collective::all_reduce, Collective::reduce_scatter,
                                  Collective::all_gather, Collective::all_to_all,
                                  Collective::broadcast};
  std::mt19937 random(1);
  for (int i = 0; i < (kSanitized ? 3 : 20); ++i) {
    MachineModel machine;
    machine.cores = 1 + static_cast<int>(random() % 8);
    machine.net.nic *= 1 + static_cast<double>(random() % 1000) / 100;
    machine.hosts = random_places(random);
    const MachineModel told = parse_machine_model(print(machine));
    ModelQuery q = query(kSome[i % 5], size_t{1} << (10 + random() % 14), machine);
    q.uneven = random() % 4 == 0;
    const TuningChoice here = choose(q, {});
    ModelTuner there(told, {});
    for (int before = 0; before < 3; ++before) {
      ModelQuery other = query(kSome[random() % 5], size_t{1} << (10 + random() % 14), told);
      there.choose(other);
    }
    there.explain(q);
    EXPECT_EQ(there.choose(q), here) << "placement " << i << ": " << here.algorithm;
  }
}

TEST(InSteps, AreTwentyBinaryDigits) {
  for (const double x : {1.0, 3.5e-6, 0.77}) {
    const double step = in_steps(x);
    EXPECT_NEAR(step, x, x * 0x1p-21);
    EXPECT_EQ(in_steps(step), step);
    EXPECT_EQ(in_steps(step * (1 + 0x1p-30)), step);
    EXPECT_EQ(in_steps(step * (1 - 0x1p-30)), step);
    EXPECT_NE(in_steps(step * (1 + 0x1p-19)), step);
  }
  EXPECT_EQ(in_steps(0), 0);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(in_steps(infinite), infinite);
}

}  // namespace
}  // namespace ringwood

// The cost model against closed forms (Hockney's and LogGP's, for each algorithm), and the rules
// that are true of every row of the table.
#include "collectives/tuner/cost/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "collectives/schedule/graph.h"
#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/link_queues.h"
#include "tests/support/errors.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

constexpr double kFree = 1e17;  // bytes/s of what shall cost nothing

std::vector<Schedule> build_all(Collective what, const char* name, int n, int count, int root = 0) {
  const AlgorithmRow* row = find_algorithm(what, name);
  std::vector<Schedule> all;
  for (int r = 0; r < n; ++r) all.push_back(segments(row->build({r, n, root}), count));
  return all;
}

// Only what a case sets costs anything.
MachineModel ideal(std::vector<int> hosts, int cores = 64) {
  MachineModel f;
  f.hosts = std::move(hosts);
  f.cores = cores;
  f.copy = f.reduce = {kFree, kFree, kFree};
  f.exchanged = {kFree, kFree, kFree};
  f.memory = f.handed = f.net.copied = f.net.nic = kFree;
  f.call = f.post = f.look = f.latency = f.yield = f.net.latency = f.net.post = 0;
  f.eager = f.net.eager = 1e12;
  return f;
}

// One rank on each host, alpha and beta of the network.
MachineModel network_of(int n, double alpha, double beta) {
  std::vector<int> hosts(n);
  std::iota(hosts.begin(), hosts.end(), 0);
  MachineModel f = ideal(hosts);
  f.net.latency = alpha;
  f.net.nic = 1 / beta;
  return f;
}

// All ranks on one host, reading each other's buffers, a core each.
MachineModel cores(int n, double alpha, double gamma) {
  MachineModel f = ideal(std::vector<int>(n, 0), n);
  f.staged = false;
  f.latency = alpha;
  f.reduce = {1 / gamma, 1 / gamma, 1 / gamma};
  return f;
}

constexpr double kAlpha = 20e-6, kBeta = 0.8e-9, kGamma = 0.1e-9;

struct Closed {
  const char* what;
  Collective collective;
  const char* algorithm;
  int n, segments;
  MachineModel machine;
  double S;  // bytes
  double expected;
};

std::vector<Closed> closed_forms() {
  using C = Collective;
  const double a = kAlpha, b = kBeta, g = kGamma, S = 64e6;
  MachineModel two_hosts = ideal({0, 0, 0, 0, 1, 1, 1, 1});
  two_hosts.net.nic = 1 / b;
  MachineModel posting = ideal(std::vector<int>(5, 0));
  posting.post = 1e-6;
  MachineModel crowded = cores(4, 0, g);
  crowded.cores = 2;
  MachineModel waiting = cores(4, 0, 1 / kFree);
  waiting.cores = 2;
  waiting.yield = 2e-6;
  MachineModel staging = ideal({0, 0});
  staging.handed = 10e9;
  MachineModel memory = cores(4, 0, g);
  memory.l2_bytes = memory.l3_bytes = 1;
  memory.memory = 2 / g;
  return {
      {"the design's example", C::all_reduce, "ring", 8, 1, network_of(8, 0, 0.8e-9), 256e6,
       0.3584},
      {"ring", C::all_reduce, "ring", 8, 1, network_of(8, a, b), S, 14 * (a + S / 8 * b)},
      {"direct shares its ports", C::all_reduce, "direct", 8, 1, network_of(8, a, b), S,
       2 * a + 2 * 7.0 / 8 * S * b},
      {"one shot", C::all_reduce, "one_shot", 4, 1, network_of(4, a, b), S, a + 3 * S * b},
      {"halving", C::all_reduce, "halving_doubling", 8, 1, network_of(8, a, b), S,
       6 * a + 2 * 7.0 / 8 * S * b},
      {"two ranks exchange", C::all_reduce, "halving_doubling", 2, 1, network_of(2, a, b), S,
       2 * a + S * b},
      {"chain", C::broadcast, "chain", 5, 1, network_of(5, a, b), S, 4 * (a + S * b)},
      {"chain in segments", C::broadcast, "chain", 5, 16, network_of(5, a, b), S,
       4 * a + (16 + 3) * S / 16 * b},
      {"all-gather ring", C::all_gather, "ring", 6, 1, network_of(6, a, b), S, 5 * (a + S * b)},
      {"all-to-all", C::all_to_all, "pairwise", 6, 1, network_of(6, a, b), S, a + 5 * S * b},
      {"gather into one port", C::gather, "linear", 6, 1, network_of(6, a, b), S, a + 5 * S * b},
      {"ring that adds", C::all_reduce, "ring", 4, 1, cores(4, a, g), S, 6 * a + 3.0 / 4 * S * g},
      {"direct that adds", C::all_reduce, "direct", 4, 1, cores(4, a, g), S,
       2 * a + 3.0 / 4 * S * g},
      {"the hosts' interfaces are shared", C::all_reduce, "direct", 8, 1, two_hosts, S,
       2 * 16 * S / 8 * b},
      {"posting 4 messages, taking 4", C::all_gather, "direct", 5, 1, posting, 64, 8e-6},
      {"4 ranks add on 2 cores", C::all_reduce, "direct", 4, 1, crowded, S, 2 * 3.0 / 4 * S * g},
      {"waiting for a core, twice", C::all_reduce, "direct", 4, 1, waiting, 64, 4e-6},
      {"written and read, each half", C::all_reduce, "direct", 2, 1, staging, S, 2 * S / 10e9},
      {"one way, both at the same time", C::broadcast, "chain", 2, 1, staging, S,
       (S + 131072) / 10e9},
      {"the memory is shared, also by copies", C::all_reduce, "direct", 4, 1, memory, S,
       2 * 4 * 3.0 / 4 * S * g / 2},
  };
}

TEST(Cost, IsThatOfTheClosedForms) {
  for (const Closed& c : closed_forms()) {
    const Load load{c.collective, static_cast<size_t>(c.S)};
    const double seconds =
        predict(build_all(c.collective, c.algorithm, c.n, c.segments), load, c.machine).seconds;
    EXPECT_NEAR(seconds, c.expected, 0.005 * c.expected) << c.what;
  }
}

// Where the ranks share their buffers, the owner of a part reads it from all and writes it to all.
TEST(Cost, SharedBuffersAreReadAndPutInPlace) {
  const int n = 4;
  const double S = 8e6, read = 0.1e-9, write = 0.3e-9;
  MachineModel f = ideal(std::vector<int>(n, 0), n);
  f.reduce = {1 / read, 1 / read, 1 / read};
  f.copy = {1 / write, 1 / write, 1 / write};
  f.handed = 1 / write;
  Load load{Collective::all_reduce, static_cast<size_t>(S)};
  load.zero_copy = true;
  const double own = (n - 1) * S / n;  // a part from, and to, each of the others
  const auto seconds = [&](const char* name) {
    return predict(build_all(Collective::all_reduce, name, n, 1), load, f).seconds;
  };
  EXPECT_NEAR(seconds("direct"), own * (read + write / 8), 1e-3 * own * read);
  // The ring passes partial sums on: nothing comes back to where it came from.
  EXPECT_GT(seconds("ring"), own * (read + write) * 0.999);
  f.zero_copy = S;  // messages are too small to be sent zero-copy
  EXPECT_GT(seconds("direct"), own * (read + 2 * write));
}

TEST(Cost, OneRoundSavesTheRoundsOfTheAgreement) {
  Load load{Collective::all_reduce, 8};
  load.agreement = true;
  const auto one_shot = build_all(Collective::all_reduce, "one_shot", 8, 1);
  EXPECT_NEAR(predict(one_shot, load, network_of(8, kAlpha, kBeta)).seconds, 3 * kAlpha, 1e-7);
  load.one_round = true;
  EXPECT_NEAR(predict(one_shot, load, network_of(8, kAlpha, kBeta)).seconds, kAlpha, 1e-7);
  // On one host the preambles go in eager slots: one round, whatever comes after; data meanwhile.
  MachineModel host = ideal(std::vector<int>(8, 0), 8);
  host.latency = kAlpha;
  EXPECT_NEAR(predict(one_shot, load, host).seconds, kAlpha * (1 + 8 / 192.0), 1e-9);
  load.one_round = false;  // two of the pieces are of 4 bytes
  const auto pieces = build_all(Collective::all_reduce, "direct", 8, 1);
  EXPECT_NEAR(predict(pieces, load, host).seconds, 2 * kAlpha * (1 + 4 / 192.0), 1e-9);
}

TEST(Cost, LoopbackIsSockets) {
  MachineModel f = ideal(std::vector<int>(2, 0), 2);
  f.loopback = true;
  f.net.copied = 1e9;
  f.net.post = 3e-6;
  f.net.nic = 1;  // is not passed
  const double S = 1e6;
  const auto schedules = build_all(Collective::broadcast, "linear", 2, 1);
  const Load load{Collective::broadcast, static_cast<size_t>(S)};
  EXPECT_NEAR(predict(schedules, load, f).seconds, 3e-6 + S / 1e9 + 3e-6, 1e-7);
}

TEST(Cost, NodesOfAHostAreFurtherApart) {
  MachineModel f = ideal(std::vector<int>(4, 0), 4);
  f.nodes = {0, 0, 1, 1};
  f.handed = f.node_handed = 10e9;
  Load load{Collective::all_reduce, 64 << 10};
  const auto schedules = build_all(Collective::all_reduce, "direct", 4, 1);
  const double near = predict(schedules, load, f).seconds;
  f.node_latency = kAlpha;
  // Two rounds of messages of many lines; the copies inside a node go on meanwhile.
  EXPECT_GT(predict(schedules, load, f).seconds, 4 * kAlpha);
  EXPECT_LE(predict(schedules, load, f).seconds, near + 4 * kAlpha);
  f.node_latency = 0;
  f.node_handed = 1e9;
  EXPECT_GT(predict(schedules, load, f).seconds, 3 * near);
}

TEST(Cost, ADoubleTreeInSegmentsNearsTwiceTheVector) {
  // 2 S beta for both trees together; the pipeline's depth and fair shares take the rest.
  const int n = 8;
  const double S = 64e6, bound = 2 * S * kBeta;
  const auto seconds = [&](int count) {
    return predict(build_all(Collective::all_reduce, "double_tree", n, count),
                   {Collective::all_reduce, static_cast<size_t>(S)}, network_of(n, 1e-6, kBeta))
        .seconds;
  };
  EXPECT_GT(seconds(1), 1.8 * bound);
  EXPECT_LT(seconds(64), 1.2 * bound);
  EXPECT_GT(seconds(64), 0.7 * bound);
}

TEST(Cost, TheAgreementComesBeforeWhatIsReceived) {
  Load load{Collective::all_reduce, 8};
  const MachineModel f = network_of(8, kAlpha, kBeta);
  const auto schedules = build_all(Collective::all_reduce, "direct", 8, 1);
  EXPECT_NEAR(predict(schedules, load, f).seconds, 2 * kAlpha, 1e-7);
  load.agreement = true;  // three rounds; the first of the data travels meanwhile
  EXPECT_NEAR(predict(schedules, load, f).seconds, 4 * kAlpha, 1e-7);
  // A barrier is its agreement.
  load.collective = Collective::barrier;
  const auto barrier = build_all(Collective::barrier, "dissemination", 9, 1);
  EXPECT_NEAR(predict(barrier, load, network_of(9, kAlpha, kBeta)).seconds, 4 * kAlpha, 1e-7);
}

TEST(Cost, EveryRowFinishesAndKeepsItsOrder) {
  for (const AlgorithmRow& row : algorithm_table()) {
    for (const int n : {1, 2, 3, 5, 8}) {
      if (!row.accepts(n)) continue;
      for (const size_t bytes : {size_t{0}, size_t{40}, size_t{3} << 20}) {
        const auto schedules = build_all(row.collective, row.name, n, 3, n - 1);
        Load load{row.collective, bytes};
        load.timeline = load.agreement = true;
        MachineModel f;
        for (int r = 0; r < n; ++r) f.hosts.push_back(r / 3);
        const std::vector<Plan> plans = plans_of(schedules, 1, load, f);
        const Prediction p = predict(schedules, load, f);
        ASSERT_EQ(p.finish.size(), schedules.size());
        std::vector<std::vector<double>> ended(n);
        for (int r = 0; r < n; ++r) ended[r].assign(plans[r].steps.size(), -1);
        for (const Interval& i : p.timeline) {
          EXPECT_LE(0, i.begin);
          EXPECT_LE(i.begin, i.end);
          EXPECT_LE(i.end, p.seconds);
          EXPECT_EQ(ended[i.rank][i.step], -1) << row.name;
          ended[i.rank][i.step] = i.end;
        }
        for (int r = 0; r < n; ++r) {
          const Graph& graph = plans[r].graph;
          for (size_t i = 0; i < ended[r].size(); ++i) {
            ASSERT_GE(ended[r][i], 0) << row.name << ": step " << i << " is missing";
            for (int32_t k = graph.offset[i]; k < graph.offset[i + 1]; ++k)
              EXPECT_LE(ended[r][i], ended[r][graph.successor[k]]) << row.name;
          }
        }
        EXPECT_EQ(predict(schedules, load, f).seconds, p.seconds);
      }
    }
  }
}

// But for what a thread gains where jobs come in another order (Graham's anomalies, 1966).
TEST(Cost, MoreBytesNeverCostLess) {
  const MachineModel f;
  for (const AlgorithmRow& row : algorithm_table()) {
    if (!row.accepts(4)) continue;
    const auto schedules = build_all(row.collective, row.name, 4, 2);
    double before = 0;
    for (size_t bytes = 64; bytes <= size_t{64} << 20; bytes *= 8) {
      const double seconds = predict(schedules, {row.collective, bytes}, f).seconds;
      EXPECT_GE(seconds, before * 0.99) << row.name << " " << bytes;
      before = seconds;
    }
  }
}

TEST(Cost, LiesBetweenItsBoundsAndTheirEstimateIsNear) {
  std::vector<MachineModel> machines(3);
  machines[1].staged = false;
  machines[2].hosts = {0, 0, 0, 1, 1, 2};
  for (const MachineModel& f : machines) {
    for (const AlgorithmRow& row : algorithm_table()) {
      if (!row.accepts(6)) continue;
      for (const size_t bytes : {size_t{64}, size_t{100} << 10, size_t{20} << 20}) {
        Load load{row.collective, bytes};
        const auto schedules = build_all(row.collective, row.name, 6, 2);
        const CostBounds bounds = bounds_of(model_of(plans_of(schedules, 1, load, f), load, f), f);
        const Prediction p = predict(schedules, load, f);
        EXPECT_TRUE(p.simulated);
        EXPECT_GE(p.seconds, bounds.lower() * 0.9999) << row.name << " " << bytes;
        EXPECT_LE(p.seconds, bounds.estimate() * 3) << row.name << " " << bytes;
        EXPECT_GE(p.seconds, bounds.estimate() * 0.4) << row.name << " " << bytes;
        load.most_work = 1;
        const Prediction ended = predict(schedules, load, f);
        EXPECT_EQ(ended.simulated, p.work <= load.most_work);  // a barrier has nothing to simulate
        EXPECT_EQ(ended.seconds, ended.simulated ? p.seconds : bounds.estimate());
      }
    }
  }
}

TEST(Cost, SchedulesThatCannotFinishAreRefused) {
  auto schedules = build_all(Collective::all_reduce, "ring", 3, 1);
  const Load load{Collective::all_reduce, 1024};
  schedules[1].steps.pop_back();
  EXPECT_PRED2(contains, error_of([&] { predict(schedules, load, {}); }).cause, "only one end");
  // Each waits for what the other sends after.
  std::vector<Schedule> crossed = {{0, 2, 1, {}, {}}, {1, 2, 1, {}, {}}};
  for (int r : {0, 1}) {
    crossed[r].recv(1 - r, {0});
    crossed[r].send(1 - r, {0});
  }
  EXPECT_PRED2(contains, error_of([&] { predict(crossed, load, {}); }).cause, "never begin");
  MachineModel three;
  three.hosts = {0, 0, 1};
  EXPECT_PRED2(contains, error_of([&] { predict(crossed, load, three); }).cause, "3 ranks");
}

// ---- sharing -----------------------------------------------------------------------------------

std::vector<int32_t> run_until(LinkQueues& queues, double& time) {
  std::vector<LinkQueues::Left> left;
  time = queues.next();
  queues.leave(left);
  std::vector<int32_t> jobs;
  for (const LinkQueues::Left& one : left) jobs.push_back(one.job);
  return jobs;
}

TEST(LinkQueues, AllJobsOfALinkGetEqualParts) {
  LinkQueues queues;
  const int32_t narrow = queues.add_link(1), wide = queues.add_link(2);
  queues.enter(narrow, 0, 1, 0);
  queues.enter(narrow, 0, 2, 1);
  queues.enter(wide, 0, 5, 2);
  double time = 0;
  EXPECT_EQ(run_until(queues, time), (std::vector<int32_t>{0}));
  EXPECT_NEAR(time, 2, 1e-9);  // at half the rate
  queues.enter(wide, time, 1, 3);
  EXPECT_EQ(run_until(queues, time), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_NEAR(time, 3, 1e-9);  // 1 was left, alone; and 1 each on the wide one
  EXPECT_EQ(queues.next(), INFINITY);
}

TEST(LinkQueues, WhatEndsTogetherIsOneEventInTheOrderOfStart) {
  LinkQueues queues;
  const int32_t a = queues.add_link(1), b = queues.add_link(1);
  queues.enter(b, 0, 0.1 + 0.2, 7);
  queues.enter(a, 0, 0.3, 3);
  double time = 0;
  EXPECT_EQ(run_until(queues, time), (std::vector<int32_t>{7, 3}));
}

}  // namespace
}  // namespace ringwood

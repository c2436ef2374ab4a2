// The cost of messages between hosts that are not alike, and beyond the middle of a network.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/cost/cost_model.h"
#include "collectives/tuner/cost/token_buckets.h"
#include "tests/tuner/cost/network_of.h"

namespace ringwood {
namespace {

std::vector<Schedule> direct_all_gather(int n) {
  const AlgorithmRow* row = find_algorithm(Collective::all_gather, "direct");
  std::vector<Schedule> all;
  for (int r = 0; r < n; ++r) all.push_back(row->build({r, n}));
  return all;
}

// When each message has arrived, by receiver and sender.
std::map<std::pair<int, int>, double> arrivals(const std::vector<Schedule>& schedules, double bytes,
                                               const MachineModel& machine) {
  Load load{Collective::all_gather, static_cast<size_t>(bytes)};
  load.timeline = true;
  std::map<std::pair<int, int>, double> ends;
  for (const Interval& i : predict(schedules, load, machine).timeline)
    if (const Step& step = schedules[i.rank].steps[i.step]; step.kind == StepKind::recv)
      ends[{i.rank, step.peer}] = i.end;
  return ends;
}

// A slow port has 3 messages each way, of a twelfth of the others' rate; the others take what they
// would without it.
TEST(CostOfNetworks, ASlowHostSlowsItsOwnMessagesOnly) {
  const double S = 8e6;
  MachineModel f = network_of(4);
  f.net.exceptions = {{2, 0.25, "slow"}};
  for (const auto& [ends, time] : arrivals(direct_all_gather(4), S, f)) {
    const bool slow = ends.first == 2 || ends.second == 2;
    const double expected = (slow ? 12 : 3) * S * kBeta;
    EXPECT_NEAR(time, expected, 0.01 * expected) << ends.second << " to " << ends.first;
  }
}

// The root sends one message to each other host at the same time.
double direct_broadcast(const MachineModel& machine, size_t bytes) {
  const AlgorithmRow* row = find_algorithm(Collective::broadcast, "linear");
  const auto n = static_cast<int>(machine.hosts.size());
  std::vector<Schedule> all;
  for (int r = 0; r < n; ++r) all.push_back(row->build({r, n}));
  return predict(all, {Collective::broadcast, bytes}, machine).seconds;
}

// What is striped is cut into pieces, which go over all rails; what is one piece takes the one that
// is free.
TEST(CostOfNetworks, AMessageOfOnePieceTakesOneOfTheRails) {
  const double tolerance = 0.01;
  const auto alone = [&](MachineModel f, size_t bytes) {
    return direct_broadcast(f, bytes) / (static_cast<double>(bytes) * kBeta);
  };
  MachineModel f = network_of(2), three = network_of(3);
  f.net.carrier = three.net.carrier = PathClass::rdma;
  const auto piece = static_cast<size_t>(f.net.piece);
  EXPECT_NEAR(alone(f, piece), 1, tolerance);
  f.net.rails = three.net.rails = 2;
  EXPECT_NEAR(alone(f, piece), 2, tolerance);
  EXPECT_NEAR(alone(f, 2 * piece), 1, tolerance);
  EXPECT_NEAR(alone(three, piece), 2, tolerance);      // one rail for each of the two
  EXPECT_NEAR(alone(three, 2 * piece), 2, tolerance);  // both for each, shared
  // A connection of sockets has no pieces.
  f.net.carrier = PathClass::socket;
  EXPECT_NEAR(alone(f, piece), 1, tolerance);
  // Whoever may choose avoids a slow one.
  three.net.exceptions = {{0, 0.25, "slow", 1}};
  EXPECT_NEAR(alone(three, piece), 4, tolerance);
}

// Of a message that takes as long as its gap does, half of the rate is left.
TEST(CostOfNetworks, APortNeedsItsGapForEachMessage) {
  MachineModel f = network_of(4);
  f.net.gap = 50e-6;
  const double S = f.net.gap / kBeta;
  for (const double bytes : {S, S / 4, 10 * S})
    for (const auto& [ends, time] : arrivals(direct_all_gather(4), bytes, f))
      EXPECT_NEAR(time, 3 * (bytes * kBeta + f.net.gap), 0.01 * time);
  // A slow port needs no longer for it.
  f.net.exceptions = {{2, 0.25, "slow"}};
  EXPECT_NEAR(arrivals(direct_all_gather(4), S, f).at({2, 0}), 3 * (4 * S * kBeta + f.net.gap),
              0.01 * f.net.gap);
}

TEST(CostOfNetworks, ARailIsThatOfTheLowerRank) {
  const double S = 8e6;
  MachineModel f = network_of({0, 0, 1, 1});
  f.net.rails = 2;
  f.net.rail_of_rank = true;
  f.net.exceptions = {{1, 0.25, "slow", 1}};
  const auto ends = arrivals(direct_all_gather(4), S, f);
  // Two messages each way on each rail, of half of the interface, or an eighth.
  for (const int upper : {2, 3}) {
    EXPECT_NEAR(ends.at({upper, 0}), 4 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({0, upper}), 4 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({upper, 1}), 16 * S * kBeta, 0.01 * S * kBeta);
    EXPECT_NEAR(ends.at({1, upper}), 16 * S * kBeta, 0.01 * S * kBeta);
  }
}

// The middle passes half of what the hosts can send, and their ports have time for near messages.
TEST(CostOfNetworks, TheMiddleIsNotThePort) {
  const double S = 8e6;
  MachineModel f = network_of(8);
  f.net.leaves = {0, 0, 0, 0, 1, 1, 1, 1};
  f.net.far = PathParameters{0, f.net.nic / 2, 1};
  const Load load{Collective::all_gather, static_cast<size_t>(S)};
  const auto direct = direct_all_gather(8);
  EXPECT_NEAR(predict(direct, load, f).seconds, 8 * S * kBeta, 0.02 * S * kBeta);
  f.net.far->rate = f.net.nic * 0.9;
  EXPECT_NEAR(predict(direct, load, f).seconds, 7 * S * kBeta, 0.02 * S * kBeta);
}

// 8 hosts send and receive 7 messages each, and the cores do nothing but their ends.
TEST(CostOfNetworks, HostsMayShareTheirCores) {
  constexpr double kPost = 10e-6;
  MachineModel f = network_of(8);
  f.cores = 2;
  f.net.nic = 1e17;
  f.net.post = kPost;
  const Load load{Collective::all_gather, 8};
  const auto direct = direct_all_gather(8);
  for (const auto& [sharing, ends] :
       {std::pair{1, 14.0}, {2, 14.0}, {4, 14.0 * 4 / 2}, {8, 14.0 * 8 / 2}}) {
    f.net.sharing = sharing;
    EXPECT_NEAR(predict(direct, load, f).seconds, ends * kPost, 0.03 * ends * kPost) << sharing;
    // A slow port decides how resources are shared, and is of no weight here.
    MachineModel slow = f;
    slow.net.exceptions = {{7, 0.5, "slow"}};
    EXPECT_NEAR(predict(direct, load, slow).seconds, ends * kPost, 0.03 * ends * kPost) << sharing;
    const CostModel model = model_of(plans_of(direct, 1, load, f), load, f);
    EXPECT_LE(bounds_of(model, f).lower(), ends * kPost * 1.001) << sharing;
    EXPECT_GE(bounds_of(model, f).lower(), ends * kPost * 0.99) << sharing;
  }
}

// What comes right behind a fingerprint wakes nobody up.
TEST(CostOfNetworks, AMessageBehindAnotherTakesAPartOfItsPost) {
  constexpr double kPost = 10e-6, kBehind = 0.25;
  MachineModel f = network_of(8);
  f.cores = 2;
  f.net.nic = 1e17;
  f.net.sharing = 8;
  f.net.post = kPost;
  f.net.behind = kBehind;
  const auto seconds = [&](const char* row) {
    Load load{Collective::all_reduce, 64};
    load.agreement = true;
    return predict(build_all(*find_algorithm(Collective::all_reduce, row), {0, 8, 0}), load, f)
        .seconds;
  };
  const double turn = kPost * 8 / 2;  // of one end of all hosts
  const auto expect = [](double found, double expected) {
    EXPECT_NEAR(found, expected, 0.02 * expected);
  };
  expect(seconds("recursive_doubling"), 3 * 2 * turn * (1 + kBehind));
  expect(seconds("swing_latency"), 3 * 2 * turn * 2);                 // not early
  expect(seconds("halving_doubling"), 3 * 2 * turn * (2 + kBehind));  // the way back
}

TEST(CostOfNetworks, HostsThatShareCoresAgreeInTurns) {
  constexpr double kPost = 10e-6;
  MachineModel f = network_of(8);
  f.cores = 2;
  f.net.post = kPost;
  Load load{Collective::all_gather, 8};
  load.agreement = true;
  const auto agreed = [&](int sharing) {
    f.net.sharing = sharing;
    return model_of(plans_of(direct_all_gather(8), 1, load, f), load, f).agreed;
  };
  EXPECT_NEAR(agreed(1), 3 * 2 * kPost, 1e-9);  // three rounds
  EXPECT_NEAR(agreed(8), 3 * 2 * kPost * 8 / 2, 1e-9);
}

TEST(TokenBuckets, AreFilledAtTheirRate) {
  TokenBuckets buckets(100);
  EXPECT_EQ(buckets.take(0, 0, 60, 10), 60);
  EXPECT_EQ(buckets.take(0, 0, 60, 10), 40);    // the rest takes until 2, and filling it until 12
  EXPECT_EQ(buckets.take(0, 12, 30, 10), 30);   // until 15
  EXPECT_EQ(buckets.take(0, 13, 500, 10), 80);  // 20 are missing
  EXPECT_EQ(buckets.take(1, 13, 500, 10), 100);
  EXPECT_EQ(buckets.busiest(), 65);
  TokenBuckets none(0);
  EXPECT_EQ(none.take(0, 0, 60, 10), 0);
  EXPECT_EQ(none.busiest(), 0);
}

// A port passes `burst` bytes at once, and then is filled again at its rate.
TEST(CostOfNetworks, AnIdlePortPassesABurstAtOnce) {
  const AlgorithmRow* row = find_algorithm(Collective::broadcast, "chain");
  std::vector<Schedule> chain;
  for (int r = 0; r < 4; ++r) chain.push_back(row->build({r, 4}));
  for (const double S : {1e6, 8e6}) {
    const Load load{Collective::broadcast, static_cast<size_t>(S)};
    for (const double slow : {1.0, 0.5}) {
      MachineModel f = network_of(4);
      if (slow < 1) f.net.exceptions = {{3, slow, "slow"}};
      const double whole = predict(chain, load, f).seconds;
      EXPECT_NEAR(whole, (2 + 1 / slow) * S * kBeta, 0.01 * S * kBeta);
      f.net.burst = 0.5e6;
      const double unsent = S - f.net.burst;
      EXPECT_NEAR(predict(chain, load, f).seconds,
                  std::max((2 + 1 / slow) * unsent, S / slow) * kBeta, 0.01 * S * kBeta);
      f.net.burst = S;  // all at once; but the next operation finds what is filled until then
      EXPECT_NEAR(predict(chain, load, f).seconds, S / slow * kBeta, 0.01 * S * kBeta);
      const CostModel model = model_of(plans_of(chain, 1, load, f), load, f);
      EXPECT_LE(bounds_of(model, f).lower(), predict(chain, load, f).seconds * 1.001);
    }
  }
  // Consecutive messages find what the one before has left.
  const auto direct = direct_all_gather(4);
  const double S = 1e6;
  MachineModel f = network_of(4);
  f.net.burst = 0.5e6;
  EXPECT_NEAR(predict(direct, {Collective::all_gather, static_cast<size_t>(S)}, f).seconds,
              3 * S * kBeta, 0.01 * S * kBeta);
}

}  // namespace
}  // namespace ringwood

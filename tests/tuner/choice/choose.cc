// The choice: what is chosen where, what overrides it, that it is quick.
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/choice/row_proofs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collectives/algorithms/algorithms.h"
#include "collectives/schedule/compose.h"
#include "collectives/tuner/machine/calibrate.h"
#include "collectives/tuner/model_tuner.h"
#include "tests/support/errors.h"
#include "tools/draw/draw.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

ModelQuery query(Collective collective, size_t bytes, int n,
                 const MachineModel* machine = nullptr) {
  ModelQuery q;
  q.collective = collective;
  q.bytes = bytes;
  q.n = n;
  q.machine = machine;
  return q;
}

// A slow network, one rank on each host.
MachineModel slow_network(int n) {
  MachineModel f;
  for (int r = 0; r < n; ++r) f.hosts.push_back(r);
  f.net.nic = 0.125e9;
  f.net.latency = 30e-6;
  return f;
}

// Of the whole buffer: what the busiest rank sends.
double most_sent(const std::vector<Schedule>& all) {
  int most = 0;
  for (const Schedule& s : all) {
    int sent = 0;
    for (const Step& step : s.steps) sent += step.kind == StepKind::send ? step.src.count : 0;
    most = std::max(most, sent);
  }
  return static_cast<double>(most) / std::max(1, all[0].chunks);
}

// What a row must be like to be chosen, not which: new rows need no word here.
TEST(Choose, TakesWhatTheRegionCallsFor) {
  const MachineModel network8 = slow_network(8), network16 = slow_network(16);
  MachineModel slower8 = network8;
  slower8.net.nic = 25e6;
  constexpr int kAnyRounds = 1 << 20;
  constexpr double kAnyBytes = 1 << 20;
  struct Case {
    Collective collective;
    size_t bytes;
    int n;
    const MachineModel* machine;
    int rounds;   // at most
    double sent;  // at most, of the buffer
  };
  const Case cases[] = {
      // Latencies count: as few rounds as there are.
      {Collective::all_reduce, 8, 8, &network8, 2, kAnyBytes},
      // As many bytes in any row: not by a round for each rank, where their latencies show.
      {Collective::all_gather, 16 << 10, 8, &slower8, 3, kAnyBytes},
      // Bytes count: never the rows that send more than 2 (n-1)/n of them from one rank.
      {Collective::all_reduce, 64 << 20, 8, &network8, kAnyRounds, 14.0 / 8},
      {Collective::all_reduce, 64 << 20, 16, &network16, kAnyRounds, 30.0 / 16},
      {Collective::broadcast, 64 << 20, 8, &network8, kAnyRounds, 1},
      {Collective::broadcast, 8, 16, &network16, 4, kAnyBytes},
      {Collective::reduce, 64 << 20, 8, &network8, kAnyRounds, 1},
      {Collective::reduce, 8, 16, &network16, 4, kAnyBytes},
      {Collective::all_reduce, 64 << 20, 4, nullptr, kAnyRounds, 6.0 / 4},
      {Collective::barrier, 0, 5, nullptr, 3, kAnyBytes},
      {Collective::all_to_all, 100, 5, nullptr, 1, kAnyBytes},
  };
  for (const Case& c : cases) {
    const ModelQuery q = query(c.collective, c.bytes, c.n, c.machine);
    const AlgorithmRow& row = *find_algorithm(c.collective, choose(q, {}).algorithm);
    const auto all = build_all(
        row, {0, c.n, 0, c.machine ? std::span(c.machine->hosts) : std::span<const int>()});
    EXPECT_LE(lay_out(c.collective, all).rounds, c.rounds)
        << c.bytes << " " << print(explain(q, {}));
    EXPECT_LE(most_sent(all), c.sent * 1.001) << c.bytes << " " << print(explain(q, {}));
  }
}

TEST(Choose, LargeChainsRunInSegments) {
  const MachineModel network = slow_network(8);
  EXPECT_GT(choose(query(Collective::broadcast, 64 << 20, 8, &network), {}).segments, 8);
  EXPECT_EQ(choose(query(Collective::broadcast, 64, 8, &network), {}).segments, 1);
}

TEST(Choose, IsTheCheapestOfItsExplanation) {
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather}) {
    for (const int n : {2, 3, 8}) {
      for (const size_t bytes : {size_t{64}, size_t{100000}, size_t{16} << 20}) {
        const ModelQuery q = query(collective, bytes, n);
        const TuningChoice answer = choose(q, {});
        const auto candidates = explain(q, {});
        double best = INFINITY, best_zero_copy = INFINITY, mine = 0;
        for (const Candidate& c : candidates) {
          best = std::min(best, c.seconds);
          best_zero_copy = std::min(best_zero_copy, c.zero_copy_seconds);
        }
        const auto regret = [&](const Candidate& c) {
          return std::max(c.seconds / best, c.zero_copy_seconds / best_zero_copy);
        };
        double least = INFINITY;
        int chosen = 0;
        for (const Candidate& c : candidates) {
          least = std::min(least, regret(c));
          EXPECT_EQ(c.chosen, c.why_not.empty()) << c.algorithm;
          if (!c.chosen) continue;
          ++chosen;
          mine = regret(c);
          EXPECT_EQ((TuningChoice{c.algorithm, c.segments, c.wire}), answer);
        }
        EXPECT_EQ(chosen, 1);
        EXPECT_LE(mine, least * 1.0501);
        const std::string text = print(candidates);
        EXPECT_PRED2(contains, text, "* " + answer.algorithm);
      }
    }
  }
}

// Nobody knows whether all ranks' buffers are shared, so what is chosen must do for both.
TEST(Choose, ExplainsPrivateAndSharedBuffers) {
  MachineModel f;
  f.copy = {100e9, 55e9, 14e9};
  f.reduce = {70e9, 47e9, 9e9};
  f.handed = f.node_handed = 70e9;
  const ModelQuery q = query(Collective::all_reduce, 2 << 20, 4, &f);
  for (const Candidate& c : explain(q, {})) {
    EXPECT_GT(c.zero_copy_seconds, 0) << c.algorithm;
    if (c.algorithm != "direct" || c.segments != 1) continue;
    EXPECT_LT(c.zero_copy_seconds, c.seconds / 1.5);
  }
  f.loopback = true;  // nothing can be sent zero-copy
  for (const Candidate& c : explain(q, {}))
    EXPECT_EQ(c.zero_copy_seconds, c.seconds) << c.algorithm;
}

TEST(Choose, NodesAreWeighedLikeHosts) {
  MachineModel f;
  for (int r = 0; r < 16; ++r) f.nodes.push_back(r / 8);
  f.cores = 16;
  const auto seconds_of = [&](const char* name) {
    double best = INFINITY;
    for (const Candidate& c : explain(query(Collective::all_reduce, 1 << 20, 16, &f), {}))
      if (c.algorithm == name) best = std::min(best, c.seconds);
    return best;
  };
  f.node_handed = 0.1e9;  // slow enough that little else counts
  EXPECT_LT(seconds_of("hierarchical_nodes"), 0.5 * seconds_of("direct"));
  f.nodes.clear();
  EXPECT_EQ(seconds_of("hierarchical_nodes"), INFINITY);
}

TEST(Choose, OverridesAreKept) {
  Options options;
  const ModelQuery q = query(Collective::all_reduce, 1 << 20, 4);
  EXPECT_EQ(choose(q, options, "ring").algorithm, "ring");
  EXPECT_EQ(choose(q, options, "ring", 7), (TuningChoice{"ring", 7, WireFormat::exact}));
  EXPECT_EQ(choose(q, options, "", 3).segments, 3);
  EXPECT_EQ(choose(q, options, "", 100000).segments, 256);
  options.algorithm = "all_reduce:double_tree,broadcast:chain";
  EXPECT_EQ(choose(q, options).algorithm, "double_tree");
  EXPECT_EQ(choose(q, options, "direct").algorithm, "direct");
  options.algorithm = "binomial";
  EXPECT_EQ(choose(query(Collective::reduce, 1 << 20, 4), options).algorithm, "binomial");
  EXPECT_NO_THROW(choose(q, options));  // all_reduce has no such row
  options.algorithm = "all_reduce:nonesuch";
  EXPECT_PRED2(contains, error_of([&] { choose(q, options); }).cause, "there are: direct");
}

TEST(Choose, SmallFloatsAreRoundedOnce) {
  const MachineModel network = slow_network(8);
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float8_e4m3}) {
    for (const size_t bytes : {size_t{64}, size_t{8192}, size_t{32} << 20}) {
      for (const int n : {2, 3, 8}) {
        ModelQuery q = query(Collective::all_reduce, bytes, n, n == 8 ? &network : nullptr);
        q.type = type;
        const AlgorithmRow* row = find_algorithm(q.collective, choose(q, {}).algorithm);
        std::vector<Schedule> all;
        for (int r = 0; r < n; ++r) all.push_back(row->build({r, n, 0}));
        EXPECT_EQ(sum_roundings(all), 1) << row->name << " n " << n;
        q.collective = Collective::reduce_scatter;
        EXPECT_EQ(choose(q, {}).algorithm, n == 2 ? choose(q, {}).algorithm : "direct");
      }
    }
  }
}

TEST(Choose, RoundingsTellTheRowsApart) {
  const auto roundings = [](Collective collective, const char* name, int n) {
    const AlgorithmRow* row = find_algorithm(collective, name);
    std::vector<Schedule> all;
    for (int r = 0; r < n; ++r) all.push_back(segments(row->build({r, n, 0}), 2));
    return sum_roundings(all);
  };
  EXPECT_EQ(roundings(Collective::all_reduce, "direct", 5), 1);
  EXPECT_EQ(roundings(Collective::reduce_scatter, "direct", 5), 1);
  EXPECT_EQ(roundings(Collective::all_reduce, "ring", 2), 1);
  EXPECT_EQ(roundings(Collective::all_reduce, "one_shot", 2), 1);
  EXPECT_EQ(roundings(Collective::all_reduce, "one_shot", 3), 1);
  EXPECT_EQ(roundings(Collective::all_reduce, "ring", 3), 2);
  EXPECT_EQ(roundings(Collective::all_reduce, "ring", 9), 8);
  EXPECT_EQ(roundings(Collective::all_reduce, "halving_doubling", 4), 2);
  EXPECT_EQ(roundings(Collective::all_reduce, "mixed_radix", 64), 3);
  EXPECT_EQ(roundings(Collective::reduce, "binomial", 8), 3);
}

// The format that the tolerance allows, where links are slow beside the codecs, and nowhere else.
TEST(Choose, EncodesWhereBytesAreExpensive) {
  const MachineModel slow = slow_network(4);
  MachineModel slow_codecs = slow;
  slow_codecs.bf16.encode = slow_codecs.bf16.decode = 10e6;
  slow_codecs.int8.encode = slow_codecs.int8.decode = 10e6;
  MachineModel one_host;
  struct Case {
    const char* why;
    const MachineModel* machine;
    double tolerance;
    size_t bytes;
    DataType type;
    ReduceOp op;
    WireFormat wire;
  };
  const DataType fp32 = DataType::float32;
  const ReduceOp sum = ReduceOp::sum;
  const size_t large = 4 << 20;
  const Case cases[] = {
      {"not allowed", &slow, 0, large, fp32, sum, WireFormat::exact},
      {"too little for two roundings", &slow, 0.004, large, fp32, sum, WireFormat::exact},
      {"bf16", &slow, 0.008, large, fp32, sum, WireFormat::bf16},
      {"bf16 of a mean", &slow, 0.008, large, fp32, ReduceOp::avg, WireFormat::bf16},
      {"int8", &slow, 0.04, large, fp32, sum, WireFormat::int8},
      {"small", &slow, 0.04, 4096, fp32, sum, WireFormat::exact},
      {"another type", &slow, 0.04, large, DataType::float64, sum, WireFormat::exact},
      {"another operation", &slow, 0.04, large, fp32, ReduceOp::max, WireFormat::exact},
      {"codecs slower than the network", &slow_codecs, 0.04, large, fp32, sum, WireFormat::exact},
      {"shared memory", &one_host, 0.04, large, fp32, sum, WireFormat::exact},
  };
  for (const Case& c : cases) {
    ModelQuery q = query(Collective::all_reduce, c.bytes, 4, c.machine);
    q.tolerance = c.tolerance;
    q.type = c.type;
    q.op = c.op;
    const TuningChoice a = choose(q, {});
    EXPECT_EQ(a.wire, c.wire) << c.why << ": " << name_of(a.algorithm, a.wire);
    Options reproducible;
    reproducible.reproducible = true;
    EXPECT_EQ(choose(q, reproducible).wire, WireFormat::exact) << c.why;
  }
}

TEST(Choose, SaysWhyARowIsNotEncoded) {
  const MachineModel slow = slow_network(3);
  ModelQuery q = query(Collective::all_reduce, 4 << 20, 3, &slow);
  q.tolerance = 0.009;
  const std::string text = print(explain(q, {}));
  EXPECT_PRED2(contains, text, "* direct+bf16");
  EXPECT_PRED2(contains, text, "encoded, its ranks would not end with the same bits");
  EXPECT_PRED2(contains, text, "rounds 3 times, which needs a tolerance of 0.012");
  EXPECT_EQ(choose(q, {}, "ring").wire, WireFormat::exact);
  EXPECT_EQ(choose(q, {}, "direct", 2), (TuningChoice{"direct", 2, WireFormat::bf16}));
}

// By a row whose rounds last as long as their largest block only if there is one size.
TEST(Choose, UnevenBlocksAreWeighedByTheirMean) {
  const int n = 64;
  MachineModel by_eight;
  for (int r = 0; r < n; ++r) by_eight.hosts.push_back(r / 8);
  struct Case {
    Collective collective;
    size_t bytes;
    const MachineModel* machine;
    const char *even, *uneven;
  };
  const Case cases[] = {
      {Collective::reduce_scatter, 1 << 10, &by_eight, "hierarchical_leaders", "hierarchical"},
      {Collective::all_gather, 64 << 10, &by_eight, "hierarchical_ring", "hierarchical_ring"},
      {Collective::reduce_scatter, 16 << 10, &by_eight, "hierarchical_pat", "hierarchical"}};
  for (const Case& c : cases) {
    ModelQuery q = query(c.collective, c.bytes, n, c.machine);
    EXPECT_EQ(choose(q, {}).algorithm, c.even) << to_string(c.collective);
    q.uneven = true;
    EXPECT_EQ(choose(q, {}).algorithm, c.uneven) << to_string(c.collective);
  }
}

TEST(Choose, UnevenBlocksThatPairsKnowAreWeighedByANominalSize) {
  const MachineModel network = slow_network(8);
  ModelQuery q = query(Collective::all_to_all, 0, 8, &network), known = q;
  q.uneven = known.uneven = true;
  known.bytes = 64 << 10;
  EXPECT_EQ(choose(q, {}), (TuningChoice{"pairwise", 1, WireFormat::exact}));
  const std::vector<Candidate> all = explain(q, {});
  ASSERT_FALSE(all.empty());
  for (const Candidate& c : all) {
    EXPECT_GT(c.seconds, 8 * (64 << 10) / network.net.nic * 7 / 8) << c.algorithm;
    EXPECT_EQ(c.seconds, explain(known, {}, c.algorithm, 1).front().seconds);
    EXPECT_EQ(c.segments, 1);
  }
}

TEST(Choose, ARowForBlocksOfOneSizeIsNotTakenForOthers) {
  const MachineModel network = slow_network(4);
  ModelQuery q = query(Collective::reduce_scatter, 1 << 20, 4, &network);
  Options options;
  options.algorithm = "ring";
  EXPECT_EQ(choose(q, options).algorithm, "ring");
  q.uneven = true;
  EXPECT_NE(choose(q, options).algorithm, "ring");
  EXPECT_EQ(choose(q, {}, "pat").algorithm, "pat");
  try {
    (void)choose(q, {}, "ring");
    FAIL() << "ring was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(),
              "no algorithm 'ring' for reduce_scatter with 4 ranks and blocks of different sizes; "
              "there are: direct, rank_order, pat (invalid_argument)");
  }
}

TEST(Choose, SizesFallIntoClasses) {
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(15), 15u);
  EXPECT_EQ(size_class(17), 16u);
  EXPECT_EQ(size_class(1 << 20), size_t{1} << 20);
  EXPECT_EQ(size_class((1 << 20) + (1 << 17) - 1), size_t{1} << 20);
  EXPECT_EQ(size_class(~size_t{0}), ~size_t{0} << 60);
  for (size_t bytes = 1; bytes < 1 << 20; bytes = bytes * 3 / 2 + 1) {
    EXPECT_LE(size_class(bytes), bytes);
    EXPECT_LT(bytes, size_class(bytes) * 9 / 8 + 1);
    EXPECT_EQ(size_class(size_class(bytes)), size_class(bytes));
  }
}

TEST(Choose, LargeGroupsAreWeighedWithinABudget) {
  for (const int n : {64, 300, 2000}) {
    for (const size_t bytes : {size_t{64}, size_t{64} << 20}) {
      const ModelQuery q = query(Collective::all_reduce, bytes, n);
      EXPECT_NE(find_algorithm(q.collective, choose(q, {}).algorithm), nullptr) << n;
      const std::vector<Candidate> candidates = explain(q, {});
      const auto whole = [](const Candidate& c) { return c.simulated; };
      if (n != 2000) continue;
      // But where one rank leads all others there are two messages of each.
      EXPECT_LE(std::count_if(candidates.begin(), candidates.end(), whole), 1) << n;
    }
  }
}

TEST(ModelTuner, RemembersAndAgreesWithChoose) {
  const MachineModel f = slow_network(5);
  ModelTuner tuner(f, {});
  for (int repeat : {0, 1}) {
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{70000}, size_t{9} << 20}) {
      const ModelQuery q = query(Collective::all_reduce, bytes, 5, &f);
      EXPECT_EQ(tuner.choose(query(Collective::all_reduce, bytes, 5)), choose(q, {}))
          << repeat << " " << bytes;
    }
  }
  EXPECT_THROW(tuner.choose(query(Collective::all_reduce, 8, 5), "nonesuch"), Error);
}

// ---- calibration -------------------------------------------------------------------------------

TEST(Choose, ReproducibleModeTakesRowsThatAddInRankOrder) {
  Options options;
  options.reproducible = true;
  for (const Collective c :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter})
    for (const int n : {2, 3, 5, 8, 16})
      for (const size_t bytes : {size_t{4}, size_t{64} << 10, size_t{64} << 20}) {
        const TuningChoice a = choose(query(c, bytes, n), options);
        const AlgorithmRow* row = find_algorithm(c, a.algorithm);
        ASSERT_TRUE(row) << a.algorithm;
        EXPECT_TRUE(row->rank_order) << to_string(c) << " " << bytes << " n " << n;
      }
  EXPECT_EQ(choose(query(Collective::all_reduce, 1 << 20, 4), options, "ring").algorithm, "ring");
}

}  // namespace
}  // namespace ringwood

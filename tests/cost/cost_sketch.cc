// Sketches of costs from few ranks' schedules, against the bounds and the simulation of all.
#include "collectives/cost/cost_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/cost_candidates.h"
#include "collectives/schedule/compose.h"

namespace ringwood {
namespace {

// Hosts of 1 and of 8 ranks, unlike hosts, ranks dealt out in turn to five, all on one.
std::vector<MachineModel> machines(int n) {
  std::vector<MachineModel> all(5);
  for (int r = 0; r < n; ++r) {
    all[0].hosts.push_back(r);
    all[1].hosts.push_back(r / 8);
    all[2].hosts.push_back((r + 3) / 8);
    all[3].hosts.push_back(r % 5);
  }
  for (MachineModel& f : all) f.cores = 8;
  all.back().cores = n;
  return all;
}

Load load_of(Collective collective, size_t bytes, int n) {
  Load load{collective, bytes};
  if (required_chunks(collective, n) > 0) load.bytes = std::max<size_t>(4, bytes / n);
  load.agreement = true;
  return load;
}

TEST(CostSketch, IsNearTheBoundsOfAllRanks) {
  for (const int n : {12, 30, 64}) {
    for (const MachineModel& machine : machines(n)) {
      for (const AlgorithmRow& row : algorithm_table()) {
        const Where where{0, n, 0, machine.hosts};
        if (!row.accepts(where)) continue;
        const auto schedules = build_all(row, where);
        for (const size_t bytes : {size_t{8}, size_t{64} << 10, size_t{64} << 20}) {
          const Load load = load_of(row.collective, bytes, n);
          const CostBounds exact =
              bounds_of(model_of(plans_of(schedules, 1, load, machine), load, machine), machine);
          const BuildRank build = [&](int r) {
            return after_agreement(row.build({r, n, 0, machine.hosts}), row.collective);
          };
          const CostBounds sketch = sketch_of(build, n, load, machine);
          const auto what = ::testing::Message() << to_string(row.collective) << " " << row.name
                                                 << " n " << n << " " << bytes << " bytes";
          EXPECT_GE(sketch.resource, exact.resource * 0.7) << what;
          EXPECT_LE(sketch.resource, exact.resource * 1.05) << what;
          EXPECT_GE(sketch.posts, exact.posts * 0.6) << what;
          EXPECT_LE(sketch.posts, exact.posts * 1.01) << what;
          // That a message shares its ends with others is in a sketch's path, and only there; and
          // what a rank does one after the other is in its resource, and in the others' path too.
          EXPECT_GE(sketch.estimate(), exact.estimate() * 0.45) << what;
          EXPECT_LE(sketch.estimate(), exact.estimate() * 4) << what;
        }
      }
    }
  }
}

TEST(CostSketch, ALongChainIsLengthenedInProportion) {
  const int n = 2000;  // a ring of them is not followed to its beginning
  MachineModel f;
  for (int r = 0; r < n; ++r) f.hosts.push_back(r);
  const AlgorithmRow* ring = find_algorithm(Collective::all_gather, "ring");
  const Load load{Collective::all_gather, 4096};
  const CostBounds b = sketch_of([&](int r) { return ring->build({r, n}); }, n, load, f);
  const double hop = f.net.latency + 2 * f.net.post;
  EXPECT_NEAR(b.latencies, (n - 1) * hop, 0.02 * (n - 1) * hop);
}

TEST(CostSketch, BoundsForSegmentsAreThoseOfAPipeline) {
  const int n = 5, segment_count = 16;
  MachineModel f;
  for (int r = 0; r < n; ++r) f.hosts.push_back(r);
  const AlgorithmRow* chain = find_algorithm(Collective::broadcast, "chain");
  const Load load{Collective::broadcast, size_t{64} << 20};
  std::vector<Schedule> one = build_all(*chain, {0, n}), many;
  for (const Schedule& s : one) many.push_back(segments(s, segment_count));
  const CostBounds bounds = bounds_of(model_of(plans_of(one, 1, load, f), load, f), f);
  EXPECT_EQ(bounds.estimate(1), bounds.estimate());
  const double seconds = predict(many, load, f).seconds;
  EXPECT_NEAR(bounds.estimate(segment_count), seconds, 0.05 * seconds);
}

// What is chosen by sketches alone, where the simulation can say what it costs.
TEST(CostSketch, ChoosesNearlyAsWellAsTheSimulation) {
  double times_of_all = 0;
  int cases = 0;
  for (const int n : {24, 48}) {
    for (const MachineModel& machine : machines(n)) {
      for (const Collective collective : {Collective::all_reduce, Collective::broadcast,
                                          Collective::reduce, Collective::all_gather}) {
        for (const size_t bytes : {size_t{8}, size_t{64} << 10, size_t{16} << 20}) {
          CandidateQuery query;
          query.collective = collective;
          query.n = n;
          query.bytes = load_of(collective, bytes, n).bytes;
          for (const AlgorithmRow& row : algorithm_table())
            if (row.collective == collective) query.rows.push_back(&row);
          query.all = true;
          const std::vector<Candidate> simulated = weigh(query, machine);
          query.most_steps = 0;
          double least = INFINITY, its = INFINITY;
          for (const Candidate& c : simulated) least = std::min(least, c.seconds);
          for (const Candidate& c : weigh(query, machine))
            for (const Candidate& s : simulated)
              if (c.chosen && s.algorithm == c.algorithm && s.segments == c.segments)
                its = s.seconds;
          EXPECT_LE(its, 2.5 * least) << to_string(collective) << " n " << n << " " << bytes;
          times_of_all += its / least;
          ++cases;
        }
      }
    }
  }
  EXPECT_LE(times_of_all / cases, 1.25);
}

}  // namespace
}  // namespace ringwood

// What the choice knows of buffers that the ranks of a host share.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/cost/cost.h"

namespace ringwood {
namespace {

constexpr size_t kBytes = 512 << 10;

struct Times {
  double own = 0, shared = 0;
};

// Of all ranks of one host, simulated whole.
Times times_of(const char* row, Collective collective, size_t bytes, int segments,
               const MachineModel& machine) {
  const int n = machine.cores;
  const AlgorithmRow& algorithm = *find_algorithm(collective, row);
  const std::vector<Schedule> all = build_all(algorithm, {0, n, 0, machine.hosts});
  Load load{collective, bytes};
  load.agreement = load.out_of_place = true;
  Times times;
  times.own = predict(all, load, machine, segments).seconds;
  load.zero_copy = true;
  times.shared = predict(all, load, machine, segments).seconds;
  return times;
}

ModelQuery query(Collective collective, size_t bytes, const MachineModel& machine) {
  ModelQuery q;
  q.collective = collective;
  q.n = machine.cores;
  q.bytes = bytes;
  q.machine = &machine;
  return q;
}

MachineModel one_host(int ranks) {
  MachineModel machine;
  machine.cores = ranks;
  machine.hosts.assign(static_cast<size_t>(ranks), 0);
  return machine;
}

// They go through the links of private buffers, and fill caches as these do.
TEST(SharedBuffers, TakeNothingElseWhereMessagesAreTooSmallToBeMapped) {
  const MachineModel machine = one_host(96);
  ASSERT_LT(kBytes / 96, machine.zero_copy);
  const Times ring = times_of("ring", Collective::all_reduce, kBytes, 1, machine);
  EXPECT_NEAR(ring.shared, ring.own, 0.01 * ring.own);
  int found = 0;
  for (const Candidate& c : explain(query(Collective::all_reduce, kBytes, machine), {})) {
    if (c.algorithm != "ring" || c.segments > 1) continue;
    EXPECT_NEAR(c.zero_copy_seconds, c.seconds, 0.01 * c.seconds);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

// Of many segments, of which not all are simulated.
TEST(SharedBuffers, TakeInSegmentsWhatIsTold) {
  const MachineModel machine = one_host(128);
  const ModelQuery q = query(Collective::broadcast, 2 * kBytes, machine);
  int found = 0;
  for (const Candidate& c : explain(q, {})) {
    if (c.algorithm != "chain" || c.segments < 8) continue;
    const Times whole = times_of("chain", q.collective, q.bytes, c.segments, machine);
    EXPECT_NEAR(c.zero_copy_seconds, whole.shared, 0.15 * whole.shared) << c.segments;
    ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace ringwood

// One line of nccl-tests on this rank: warmed up, timed and checked as its BenchTime() does.
//
// The time is the mean over the iterations, of one row of operations behind a barrier; of the
// ranks' means the mean, or what `average` says. All ranks call the same methods in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf/nccl_tests/nccl_call.h"

namespace ringwood::tools {

// What the flags of nccl-tests say, with its defaults.
struct NcclTestsOptions {
  int iters = 20, warmup = 1, checks = 1;
  int agg_iters = 1;  // -m: operations per iteration, one after the other
  int average = 1;    // -a: of the ranks' times rank 0's, the mean, the least, the greatest
  // -z: 1: a barrier after each operation; 2: a wait, which every call is here; 3: a barrier after
  // each iteration, untimed
  int blocking = 0;
  int unalign = 0;            // -u: elements that the buffers are shifted by
  bool per_iter = false;      // -I
  int per_iter_skip = 0;      // -K
  bool timestamps = false;    // -S
  bool cpu_time = false;      // -C: until calls return, which is when they are done
  std::string output_file;    // -J
  int gpus = 1, threads = 1;  // -g and -t
  double min_bandwidth = -1;  // NCCL_TESTS_MIN_BW; negative: none
  // Of the sizes, for the head.
  size_t min_bytes = 0, max_bytes = 0, step_bytes = 0;
  int64_t step_factor = 1;
};

struct NcclSide {
  double time_us = 0, alg_bw = 0, bus_bw = 0;
  std::optional<int64_t> wrong;                        // elements over all ranks; none: not checked
  int wrong_ranks = 0;                                 // how many ranks had wrong elements
  std::vector<double> iteration_us;                    // with -I: the slowest rank's, by iteration
  std::vector<std::vector<double>> rank_iteration_us;  // with -I: by rank
};

// Of the iterations that -K leaves.
struct NcclStatistics {
  double min = 0, max = 0, avg = 0, p50 = 0, p95 = 0, p99 = 0, stdev = 0;
  double cv_percent() const { return avg > 0 ? stdev / avg * 100 : 0; }
};
NcclStatistics statistics_of(const std::vector<double>& values, size_t skipped);

// Untimed.
void warm_up(NcclCall& call, int operations);
NcclSide measure_side(NcclCall& call, const Pattern& pattern, const NcclTestsOptions& options);

}  // namespace ringwood::tools

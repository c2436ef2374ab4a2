// One operation of one size on this rank: warmed up, timed, checked. All ranks call the same
// methods in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/perf/perf_operations.h"

namespace ringwood::tools {

struct TrialOptions {
  int iters = 0;  // operations per batch; 0: as many as fill a batch of 2 ms
  int warmup = 5;
  int batches = 7;
  bool touch = false;
};

class Trial final {
 public:
  // `row` and `call` must outlive it.
  Trial(const OperationRow& row, const Call& call, const TrialOptions& options)
      : row_(row), call_(call), options_(options) {}

  void warm_up();
  // Microseconds per operation, each batch taken from its slowest rank, and the share of one core
  // that the busiest rank's process used meanwhile.
  struct Result {
    double best_us = 0, median_us = 0, cpu_percent = 0;
  };
  Result measure(const std::function<void(int batch)>& progress);
  // The same in parts, so that several trials can take turns: begin() once, then batches, result().
  void begin();
  void run_once() { row_.run(call_); }  // untimed
  void run_batch();
  Result result();
  // Carries it out once on known data. The number of wrong elements over all ranks.
  int64_t check(const Pattern& pattern);

 private:
  double batch_seconds(int iterations);
  double touched_seconds(int iterations);
  int fitting_iterations();
  void slowest(std::vector<double>& seconds);

  const OperationRow& row_;
  const Call& call_;
  TrialOptions options_;
  int iterations_ = 1;
  std::vector<double> seconds_;  // of each batch
  double cpu_seconds_ = 0;       // of this process in all batches
};

}  // namespace ringwood::tools

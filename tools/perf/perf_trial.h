// One operation of one size on this rank: warmed up, timed, checked. All ranks call the same
// methods in the same order.
//
// Best and median are of batches. After them single operations are timed, each with two readings of
// the clock: their distribution, and when each rank came to them (group_clock.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/perf/group_clock.h"
#include "tools/perf/perf_operations.h"

namespace ringwood::tools {

struct TrialOptions {
  int iters = 0;  // operations per batch; 0: as many as fill a batch of 2 ms
  int warmup = 5;
  int batches = 7;
  bool touch = false;
};

// Of single operations; each counts with the time of its slowest rank.
struct Spread {
  int samples = 0;
  double p50_us = 0, p99_us = 0;
  // From the first rank that came to an operation until the last one.
  double skew_p50_us = 0, skew_p99_us = 0;
  int last_rank = -1;       // the one that came latest on average,
  double last_rank_us = 0;  // so much after the first one
  double clock_error_us = 0;
};

// Some operations, one after another without a barrier, each with two readings of the clock; what
// all ranks saw.
struct SingleTimes {
  std::vector<double> times_s;  // of each operation, that of its slowest rank
  std::vector<double> skews_s;  // from the first rank that came to it until the last one
  std::vector<double> late_s;   // of each rank, summed: how much later than the first it came
  std::vector<double> rank_s;   // of each rank, summed: its own time
};

class Trial final {
 public:
  // All arguments must outlive it.
  Trial(const OperationRow& row, const Call& call, const TrialOptions& options, GroupClock& clock)
      : row_(row), call_(call), options_(options), clock_(clock) {}

  void warm_up();
  // Microseconds per operation, each batch taken from its slowest rank, and the share of one core
  // that the busiest rank's process used meanwhile.
  struct Result {
    double best_us = 0, median_us = 0, cpu_percent = 0;
    double cpu_us = 0;            // of all ranks together, for one operation
    std::vector<double> rank_us;  // the mean of each rank
    Spread spread;
  };
  Result measure(const std::function<void(int batch)>& progress);
  // The same in parts, so that several trials can take turns: begin() once, then batches, result().
  void begin();
  void run_once() { row_.run(call_); }  // untimed
  void run_batch();
  Result result();
  // At most so many that all ranks' times fit into a message. Align the clock before.
  SingleTimes single(int operations);
  // Carries it out once on known data. The number of wrong elements over all ranks.
  int64_t check(const Pattern& pattern);

 private:
  double batch_seconds(int iterations);
  double touched_seconds(int iterations);
  int fitting_iterations();
  void slowest(std::vector<double>& seconds);
  std::vector<double> of_all_ranks(const std::vector<double>& mine) const;
  Spread spread(double operation_s);

  const OperationRow& row_;
  const Call& call_;
  TrialOptions options_;
  GroupClock& clock_;
  int iterations_ = 1;
  std::vector<double> seconds_;  // of each batch
  double cpu_seconds_ = 0;       // of this process in all batches
};

}  // namespace ringwood::tools

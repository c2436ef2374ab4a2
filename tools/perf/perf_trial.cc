#include "tools/perf/perf_trial.h"

#include <time.h>

#include <algorithm>
#include <numeric>

#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

constexpr double kBatchSeconds =
    2e-3;  // long beside a barrier, short beside the pauses of a busy machine
constexpr int kMaxIterations = 20000;

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

void all_reduce(const Call& call, void* data, size_t count, DataType type, ReduceOp op) {
  finish(call.communicator->all_reduce(data, count, type, op, synchronous_call()));
}

}  // namespace

void Trial::warm_up() {
  // Zeros stay zeros however often they are reduced in place, and never become slow denormal
  // numbers.
  write_input(row_, call_);
  for (int i = 0; i < options_.warmup; ++i) row_.run(call_);
}

Trial::Result Trial::measure(const std::function<void(int batch)>& progress) {
  begin();
  for (int batch = 0; batch < options_.batches; ++batch) {
    progress(batch);
    run_batch();
  }
  return result();
}

void Trial::begin() {
  write_input(row_, call_);
  iterations_ = options_.iters > 0 ? options_.iters : fitting_iterations();
  cpu_seconds_ = 0;
}

void Trial::run_batch() { seconds_.push_back(batch_seconds(iterations_)); }

Trial::Result Trial::result() {
  std::vector<double> busy{cpu_seconds_ / std::accumulate(seconds_.begin(), seconds_.end(), 0.0)};
  slowest(busy);
  slowest(seconds_);
  std::sort(seconds_.begin(), seconds_.end());
  const size_t middle = seconds_.size() / 2;
  const double median =
      seconds_.size() % 2 != 0 ? seconds_[middle] : (seconds_[middle - 1] + seconds_[middle]) / 2;
  return {seconds_.front() / iterations_ * 1e6, median / iterations_ * 1e6, busy[0] * 100};
}

int64_t Trial::check(const Pattern& pattern) {
  int64_t wrong = 0;
  if (!row_.moves_data()) {
    wrong = static_cast<int64_t>(count_early_exits(call_));
  } else {
    fill(row_, call_, pattern);
    row_.run(call_);
    wrong = static_cast<int64_t>(count_wrong(row_, call_, pattern));
  }
  all_reduce(call_, &wrong, 1, DataType::int64, ReduceOp::sum);
  return wrong;
}

double Trial::batch_seconds(int iterations) {
  if (options_.touch) return touched_seconds(iterations);
  finish(call_.communicator->barrier(synchronous_call()));
  const double used = cpu_seconds();
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) row_.run(call_);
  const double seconds = seconds_since(start);
  cpu_seconds_ += cpu_seconds() - used;
  return seconds;
}

double Trial::touched_seconds(int iterations) {
  double sum = 0;
  for (int i = 0; i < iterations; ++i) {
    write_input(row_, call_);
    finish(call_.communicator->barrier(synchronous_call()));
    const double used = cpu_seconds();
    // Again: cpu_seconds() asks the kernel, and by as much as that takes longer on one rank than on
    // the other, the other would wait in what is measured.
    finish(call_.communicator->barrier(synchronous_call()));
    const auto start = Clock::now();
    row_.run(call_);
    read_output(row_, call_);
    sum += seconds_since(start);
    cpu_seconds_ += cpu_seconds() - used;
  }
  return sum;
}

// Doubles until a run is long enough to be judged by. All ranks see the same times, so all take the
// same number.
int Trial::fitting_iterations() {
  for (int iterations = 1;; iterations *= 2) {
    std::vector<double> seconds{batch_seconds(iterations)};
    slowest(seconds);
    if (seconds[0] > kBatchSeconds / 8 || iterations >= kMaxIterations) {
      return std::clamp(static_cast<int>(kBatchSeconds / seconds[0] * iterations), 1,
                        kMaxIterations);
    }
  }
}

void Trial::slowest(std::vector<double>& seconds) {
  all_reduce(call_, seconds.data(), seconds.size(), DataType::float64, ReduceOp::max);
}

}  // namespace ringwood::tools

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

constexpr double kSampledSeconds = 20e-3;
constexpr int kMaxSamples = 1 << 18;  // of all ranks

// The least value that so many percent do not exceed.
double percentile(std::vector<double>& values, size_t percent) {
  std::sort(values.begin(), values.end());
  const size_t place = (values.size() * percent + 99) / 100;
  return values[std::max<size_t>(place, 1) - 1];
}

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
  const double operations = static_cast<double>(iterations_) * static_cast<double>(seconds_.size());
  const double sum = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  Result result;
  result.rank_us = of_all_ranks({sum / operations * 1e6});
  const std::vector<double> cpu = of_all_ranks({cpu_seconds_ / operations * 1e6});
  result.cpu_us = std::accumulate(cpu.begin(), cpu.end(), 0.0);
  std::vector<double> busy{cpu_seconds_ / sum};
  slowest(busy);
  slowest(seconds_);
  std::sort(seconds_.begin(), seconds_.end());
  const size_t middle = seconds_.size() / 2;
  const double median =
      seconds_.size() % 2 != 0 ? seconds_[middle] : (seconds_[middle - 1] + seconds_[middle]) / 2;
  result.best_us = seconds_.front() / iterations_ * 1e6;
  result.median_us = median / iterations_ * 1e6;
  result.cpu_percent = busy[0] * 100;
  result.spread = spread(median / iterations_);
  return result;
}

SingleTimes Trial::single(int operations) {
  const int most = std::max(1, kMaxSamples / call_.size());
  const auto count = static_cast<size_t>(std::clamp(operations, 1, most));
  std::vector<double> mine;
  mine.reserve(2 * count);
  finish(call_.communicator->barrier(synchronous_call()));
  for (size_t i = 0; i < count; ++i) {
    if (options_.touch) {
      write_input(row_, call_);
      finish(call_.communicator->barrier(synchronous_call()));
    }
    mine.push_back(clock_.now_s());
    row_.run(call_);
    if (options_.touch) read_output(row_, call_);
    mine.push_back(clock_.now_s());
  }
  const std::vector<double> all = of_all_ranks(mine);
  const auto ranks = static_cast<size_t>(call_.size());
  const std::vector<double> none(ranks, 0);
  SingleTimes times{std::vector<double>(count, 0), std::vector<double>(count, 0), none, none};
  for (size_t i = 0; i < count; ++i) {
    double first = all[2 * i], last = first;
    for (size_t r = 0; r < ranks; ++r) {
      const double came = all[r * mine.size() + 2 * i], left = all[r * mine.size() + 2 * i + 1];
      first = std::min(first, came);
      last = std::max(last, came);
      times.times_s[i] = std::max(times.times_s[i], left - came);
      times.rank_s[r] += left - came;
      times.late_s[r] += came;
    }
    for (double& sum : times.late_s) sum -= first;
    times.skews_s[i] = last - first;
  }
  return times;
}

// As many single operations as the batches had, within bounds.
Spread Trial::spread(double operation_s) {
  clock_.align();
  const double fitting = kSampledSeconds / std::max(operation_s, 1e-9);
  const int wanted = static_cast<int>(std::min<double>(fitting, 1000));
  SingleTimes single_times =
      single(std::min(wanted, iterations_ * static_cast<int>(seconds_.size())));
  Spread spread;
  spread.samples = static_cast<int>(single_times.times_s.size());
  spread.p50_us = percentile(single_times.times_s, 50) * 1e6;
  spread.p99_us = percentile(single_times.times_s, 99) * 1e6;
  spread.skew_p50_us = percentile(single_times.skews_s, 50) * 1e6;
  spread.skew_p99_us = percentile(single_times.skews_s, 99) * 1e6;
  spread.clock_error_us = clock_.error_us();
  const auto latest = std::ranges::max_element(single_times.late_s);
  spread.last_rank = static_cast<int>(latest - single_times.late_s.begin());
  spread.last_rank_us = *latest / spread.samples * 1e6;
  return spread;
}

std::vector<double> Trial::of_all_ranks(const std::vector<double>& mine) const {
  std::vector<double> all(mine.size() * static_cast<size_t>(call_.size()));
  finish(call_.communicator->all_gather(mine.data(), all.data(), mine.size(), DataType::float64,
                                        synchronous_call()));
  return all;
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

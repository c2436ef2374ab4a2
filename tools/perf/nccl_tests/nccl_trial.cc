#include "tools/perf/nccl_tests/nccl_trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

void meet(Communicator& group) { finish(group.barrier(synchronous_call())); }

template <class Number>
void all_reduce(Communicator& group, std::vector<Number>& values, DataType type, ReduceOp op) {
  finish(group.all_reduce(values.data(), values.size(), type, op, synchronous_call()));
}

// -z 1: the barrier is part of the time, as there.
double iteration_seconds(NcclCall& call, const NcclTestsOptions& options) {
  const auto start = Clock::now();
  for (int i = 0; i < options.agg_iters; ++i) {
    call.run();
    if (options.blocking == 1) meet(call.group());
  }
  return seconds_since(start);
}

// Seconds of all iterations; with -I and -z 3 each has its own clock.
double timed_seconds(NcclCall& call, const NcclTestsOptions& options, std::vector<double>& each) {
  const auto start = Clock::now();
  if (!options.per_iter && options.blocking != 3) {
    for (int i = 0; i < options.iters; ++i) iteration_seconds(call, options);
    return seconds_since(start);
  }
  for (int i = 0; i < options.iters; ++i) {
    each.push_back(iteration_seconds(call, options));
    if (options.blocking == 3) meet(call.group());
  }
  return options.blocking == 3 ? std::accumulate(each.begin(), each.end(), 0.0)
                               : seconds_since(start);
}

double averaged(Communicator& group, double seconds, int average) {
  if (average == 0 && group.rank() != 0) seconds = 0;
  std::vector<double> all{seconds};
  all_reduce(group, all, DataType::float64,
             average == 2   ? ReduceOp::min
             : average == 3 ? ReduceOp::max
                            : ReduceOp::sum);
  return average == 1 ? all[0] / group.size() : all[0];
}

void gather_iterations(Communicator& group, std::vector<double> each, int agg_iters,
                       NcclSide& side) {
  for (double& seconds : each) seconds *= 1e6 / agg_iters;
  std::vector<double> all(each.size() * static_cast<size_t>(group.size()));
  finish(group.all_gather(each.data(), all.data(), each.size(), DataType::float64,
                          synchronous_call()));
  side.iteration_us.assign(each.size(), 0);
  for (size_t rank = 0; rank < static_cast<size_t>(group.size()); ++rank) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(rank * each.size());
    side.rank_iteration_us.emplace_back(first, first + static_cast<ptrdiff_t>(each.size()));
    for (size_t i = 0; i < each.size(); ++i)
      side.iteration_us[i] = std::max(side.iteration_us[i], side.rank_iteration_us.back()[i]);
  }
}

void check(NcclCall& call, const Pattern& pattern, int checks, NcclSide& side) {
  for (int i = 0; i < checks && side.wrong.value_or(0) == 0; ++i) {
    call.fill(pattern);
    call.run();
    const auto mine = static_cast<int64_t>(call.count_wrong(pattern));
    std::vector<int64_t> all{mine, mine > 0};
    all_reduce(call.group(), all, DataType::int64, ReduceOp::sum);
    side.wrong = all[0];
    side.wrong_ranks = static_cast<int>(all[1]);
  }
}

}  // namespace

NcclStatistics statistics_of(const std::vector<double>& values, size_t skipped) {
  if (skipped >= values.size()) return {};
  std::vector<double> sorted(values.begin() + static_cast<ptrdiff_t>(skipped), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  const auto percentile = [&](size_t p) {
    return sorted[std::min(n - 1, std::max<size_t>(1, (n * p + 99) / 100) - 1)];
  };
  NcclStatistics s{sorted.front(), sorted.back(),  0, sorted[n / 2],
                   percentile(95), percentile(99), 0};
  s.avg = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(n);
  for (const double value : sorted) s.stdev += (value - s.avg) * (value - s.avg);
  s.stdev = std::sqrt(s.stdev / static_cast<double>(n));
  return s;
}

void warm_up(NcclCall& call, int operations) {
  call.clear();
  for (int i = 0; i < operations; ++i) call.run();
}

NcclSide measure_side(NcclCall& call, const Pattern& pattern, const NcclTestsOptions& options) {
  warm_up(call, 1);
  meet(call.group());
  NcclSide side;
  std::vector<double> each;
  const double operations = static_cast<double>(options.iters) * options.agg_iters;
  const double mine = timed_seconds(call, options, each) / operations;
  const double seconds = averaged(call.group(), mine, options.average);
  if (options.per_iter) gather_iterations(call.group(), std::move(each), options.agg_iters, side);
  side.time_us = seconds * 1e6;
  side.alg_bw = static_cast<double>(call.reported_bytes()) / 1e9 / seconds;
  side.bus_bw = side.alg_bw * call.bus_factor();
  check(call, pattern, options.checks, side);
  return side;
}

}  // namespace ringwood::tools

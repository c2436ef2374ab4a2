#include "tools/tune/trials.h"

#include <algorithm>

#include "transports/base/clock.h"

namespace ringwood::tools {
namespace {

constexpr double kBatchSeconds = 2e-3;  // as in perf_trial.cc
constexpr int kMaxIterations = 5000;

BufferKind kind_of(const TuneOptions& tune) {
  return tune.memory == "shared" ? BufferKind::shared : BufferKind::ordinary;
}

}  // namespace

Call call_of(const TuneOptions& tune, const OperationRow& row, Communicator& group, size_t count) {
  Call call{&group,
            tune.type,
            row.reduces() ? tune.op : ReduceOp::sum,
            tune.root,
            count,
            nullptr,
            nullptr,
            synchronous_call()};
  if (row.reduces()) call.options.factor = Pattern::factor(call.op, group.rank());
  return call;
}

CallData::CallData(const TuneOptions& tune, const OperationRow& row, Call& call)
    : in_(row.inputs(call) * call.block_bytes(), kind_of(tune)),
      pattern_(row.reduces() ? Pattern(call.type, call.op, call.size(), tune.tolerance)
                             : Pattern(call.type, call.size())) {
  if (!row.in_place()) out_.emplace(row.outputs(call) * call.block_bytes(), kind_of(tune));
  call.in = in_.data();
  call.out = out_ ? out_->data() : in_.data();
}

int64_t wrong_elements(const OperationRow& row, const Call& call, const Pattern& pattern) {
  fill(row, call, pattern);
  row.run(call);
  auto wrong = static_cast<int64_t>(count_wrong(row, call, pattern));
  finish(
      call.communicator->all_reduce(&wrong, 1, DataType::int64, ReduceOp::sum, synchronous_call()));
  return wrong;
}

double batch(const OperationRow& row, const Call& call, int iterations) {
  finish(call.communicator->barrier(synchronous_call()));
  const auto begin = Clock::now();
  for (int i = 0; i < iterations; ++i) row.run(call);
  return seconds_since(begin) / iterations;
}

int iterations_for(double seconds) {
  return std::clamp(static_cast<int>(kBatchSeconds / std::max(1e-9, seconds)), 1, kMaxIterations);
}

void take_slowest(Communicator& group, std::vector<double>& seconds) {
  finish(group.all_reduce(seconds.data(), seconds.size(), DataType::float64, ReduceOp::max,
                          synchronous_call()));
}

}  // namespace ringwood::tools

// The executor's additions of AVG and PREMUL_SUM (row_sums.h), and those of several operands.
#include "collectives/executor.h"
#include "collectives/row_sums.h"

namespace ringwood {
namespace {

// Sums that are divided as they are: of integers, and of floats that need no smaller operands.
bool divides_sum(const Plan& plan) {
  const DataType type = plan.shape.type;
  const bool integer = supports(type, ReduceOp::bor);
  return plan.shape.op == ReduceOp::avg &&
         (integer || (plan.scaling.whole && !accumulates_wide(type, ReduceOp::sum)));
}

}  // namespace

// What an operand is multiplied by: one rank's own numbers, or the sum of some (-1).
double Executor::scale_of(int32_t own) const {
  const Plan& plan = *request_.plan;
  if (own < 0) return 1;
  return plan.shape.op == ReduceOp::avg ? plan.scaling.scale
                                        : (*request_.factors)[static_cast<size_t>(own)];
}

void Executor::add_scaled(const BoundStep& step, size_t offset, std::span<const std::byte> piece) {
  const Plan& plan = *request_.plan;
  const auto [type, n] = std::pair(plan.shape.type, plan.scaling.n);
  const size_t first = offset / plan.element, count = piece.size() / plan.element;
  const double divisor = step.sum.completes ? plan.scaling.divisor : 1;
  void* const dst = at(step.dst) + offset;
  const void* const srcs[] = {dst, piece.data()};
  const double scales[] = {scale_of(step.sum.dst), scale_of(step.sum.src)};
  if (step.wide.on)
    return add_in_row(dst, piece.data(), wide_ + step.wide.offset + first * plan.wide_element,
                      count, type,
                      {step.wide.first, step.wide.last, scales[0], scales[1], divisor, n});
  if (!divides_sum(plan)) return reduce_scaled({&dst, 1}, srcs, scales, count, type, divisor);
  if (plan.scaling.whole) return reduce_many({&dst, 1}, srcs, count, type, ReduceOp::avg, n);
  reduce(dst, piece.data(), count, type, ReduceOp::sum);
  if (step.sum.completes) divide(dst, count, type, n);
}

// Those of `places_` and `operands_`, ours first.
void Executor::add_fused(const Fusion& fusion, size_t count) {
  const Plan& plan = *request_.plan;
  const auto [type, n] = std::pair(plan.shape.type, plan.scaling.n);
  if (!plan.scaling.on) return reduce_many(places_, operands_, count, type, plan.shape.op);
  const bool completes = plan.steps[fusion.receives.back()].sum.completes;
  if (divides_sum(plan)) {
    if (plan.scaling.whole) return reduce_many(places_, operands_, count, type, ReduceOp::avg, n);
    reduce_many(places_, operands_, count, type, ReduceOp::sum);
    for (void* place : places_)
      if (completes) divide(place, count, type, n);
    return;
  }
  scales_.assign(1, scale_of(plan.steps[fusion.receives.front()].sum.dst));
  for (const int32_t step : fusion.receives) scales_.push_back(scale_of(plan.steps[step].sum.src));
  reduce_scaled(places_, operands_, scales_, count, type, completes ? plan.scaling.divisor : 1);
}

}  // namespace ringwood

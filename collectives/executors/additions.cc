#include "collectives/executors/additions.h"

#include "collectives/kernels/accumulate.h"
#include "collectives/plan/buffers.h"

namespace ringwood {
namespace {

// True for integers, and for floats whose operands need not be scaled down first.
bool divides_sum(const Plan& plan) {
  const DataType type = plan.key.args.type;
  return plan.key.args.op == ReduceOp::avg &&
         (is_integer(type) || (plan.scaling.whole && !is_small_float(type)));
}

}  // namespace

void Additions::start_special() {
  const Plan& plan = *execution_->plan;
  divides_sum_ = plan.scaling.on && divides_sum(plan);
}

void Additions::add_special(const BoundStep& step, size_t offset,
                            std::span<const std::byte> piece) {
  const Plan& plan = *execution_->plan;
  if (plan.scaling.on) return add_scaled(step, offset, piece);
  if (step.wide.on) return add_in_wide(step, offset, piece);
  reduce_bytes(execution_->at(step.dst) + offset, piece.data(), piece.size(), plan.key.args.type,
               plan.key.args.op);
}

void Additions::add_in_wide(const BoundStep& step, size_t offset,
                            std::span<const std::byte> piece) {
  const Plan& plan = *execution_->plan;
  const auto [type, op] = std::pair(plan.key.args.type, plan.key.args.op);
  const size_t first = offset / plan.element, count = piece.size() / plan.element;
  std::byte* const dst = execution_->at(step.dst) + offset;
  auto* const wide = reinterpret_cast<float*>(execution_->wide + step.wide.offset) + first;
  if (step.wide.first) widen(wide, dst, count, type);
  reduce_wide(wide, piece.data(), count, type, op);
  if (step.wide.last) narrow(dst, wide, count, type);
}

// The factor of an operand: that of one rank's own numbers, or of a sum of some (-1).
double Additions::scale_of(int32_t own) const {
  const Plan& plan = *execution_->plan;
  if (own < 0) return 1;
  return plan.key.args.op == ReduceOp::avg ? plan.scaling.scale
                                           : (*execution_->factors)[static_cast<size_t>(own)];
}

void Additions::add_scaled(const BoundStep& step, size_t offset, std::span<const std::byte> piece) {
  const Plan& plan = *execution_->plan;
  const auto [type, n] = std::pair(plan.key.args.type, plan.scaling.n);
  const size_t first = offset / plan.element, count = piece.size() / plan.element;
  const double divisor = step.sum.completes ? plan.scaling.divisor : 1;
  void* const dst = execution_->at(step.dst) + offset;
  const void* const srcs[] = {dst, piece.data()};
  const double scales[] = {scale_of(step.sum.dst), scale_of(step.sum.src)};
  if (step.wide.on) {
    std::byte* const beside = execution_->wide + step.wide.offset + first * plan.wide.element;
    return accumulate(dst, piece.data(), beside, count, type,
                      {step.wide.first, step.wide.last, scales[0], scales[1], divisor, n});
  }
  if (!divides_sum_) return reduce_scaled({&dst, 1}, srcs, scales, count, type, divisor);
  if (plan.scaling.whole) return reduce_many({&dst, 1}, srcs, count, type, ReduceOp::avg, n);
  reduce(dst, piece.data(), count, type, ReduceOp::sum);
  if (step.sum.completes) divide(dst, count, type, n);
}

void Additions::add_fused(const Fusion& fusion, std::span<void* const> places,
                          std::span<const void* const> operands, size_t count) {
  const Plan& plan = *execution_->plan;
  const auto [type, n] = std::pair(plan.key.args.type, plan.scaling.n);
  if (!plan.scaling.on) return reduce_many(places, operands, count, type, plan.key.args.op);
  const bool completes = plan.steps[fusion.receives.back()].sum.completes;
  if (divides_sum_) {
    if (plan.scaling.whole) return reduce_many(places, operands, count, type, ReduceOp::avg, n);
    reduce_many(places, operands, count, type, ReduceOp::sum);
    for (void* place : places)
      if (completes) divide(place, count, type, n);
    return;
  }
  scales_.assign(1, scale_of(plan.steps[fusion.receives.front()].sum.dst));
  for (const int32_t step : fusion.receives) scales_.push_back(scale_of(plan.steps[step].sum.src));
  reduce_scaled(places, operands, scales_, count, type, completes ? plan.scaling.divisor : 1);
}

size_t run_local(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                 size_t done, size_t most) {
  if (step.bytes == 0) return 0;
  const size_t bytes = slice(step.bytes - done, most);
  std::byte* const src = execution.at(step.src);
  if (step.kind == StepKind::reduce) {
    additions.add(step, done, {src + done, bytes});
    return done + bytes;
  }
  std::byte* const dst = execution.at(step.dst);
  if (step.premultiplies) {
    const DataType type = execution.plan->key.args.type;
    scale(dst + done, bytes / size_of(type), type, execution.factor);
    return done + bytes;
  }
  if (dst == src) return step.bytes;
  if (done == 0 && overlap(dst, src, step.bytes)) {
    move_bytes(dst, src, step.bytes);
    return step.bytes;
  }
  move_bytes(dst + done, src + done, bytes);
  return done + bytes;
}

}  // namespace ringwood

#include <algorithm>

#include "collectives/checker/replay.h"

namespace ringwood {

ReplayMemory::ReplayMemory(const PlanSet& set, int rank, Symbols& symbols)
    : plan_(set.of(rank)),
      symbols_(symbols),
      divides_(divides_whole_sums(plan_.key.args, plan_.scaling.whole)),
      rounds_(reduces(plan_.key.args.collective) &&
              accumulates_wide(plan_.key.args.type, plan_.key.args.op)),
      scratch_(plan_.memory.scratch_bytes, {}) {
  for (int b = 0; b < user_buffers(set); ++b)
    buffers_.emplace_back(user_bytes(set, rank, b), symbols.own(rank, b, 0));
  // Counted in the bytes that the same elements occupy in the user's type.
  if (plan_.wide.element > 0)
    wide_ = {plan_.wide.bytes / plan_.wide.element * plan_.element, Symbol{}};
}

SymbolMemory& ReplayMemory::memory(int buffer) {
  return buffer == kScratch ? scratch_ : buffers_[static_cast<size_t>(buffer)];
}

SymbolRun ReplayMemory::read(const Place& place, size_t bytes) const {
  return const_cast<ReplayMemory*>(this)->memory(place.buffer).read(place.offset, bytes);
}

void ReplayMemory::write(const Place& place, const SymbolRun& run) {
  memory(place.buffer).write(place.offset, run);
}

size_t ReplayMemory::beside(const BoundStep& step) const {
  return step.wide.offset / plan_.wide.element * plan_.element;
}

// Scales one rank's own numbers, or a sum of some (-1).
SymbolRun ReplayMemory::scaled(const SymbolRun& run, int own) const {
  if (own < 0 || divides_) return run;
  return mapped(run, [&](Symbol s) {
    return plan_.key.args.op == ReduceOp::avg ? symbols_.times(s, plan_.scaling.scale)
                                              : symbols_.times_factor_of(s, own);
  });
}

SymbolRun ReplayMemory::finished(SymbolRun sum, bool completes) const {
  const Scaling& scaling = plan_.scaling;
  const bool divides = scaling.on && plan_.key.args.op == ReduceOp::avg &&
                       (divides_ ? scaling.whole || completes : completes);
  const double divisor = divides_ ? scaling.n : scaling.divisor;
  return mapped(std::move(sum), [&](Symbol s) {
    if (divides) s = symbols_.divided(s, divisor);
    return rounds_ ? symbols_.rounded(s) : s;
  });
}

void ReplayMemory::add(const BoundStep& step, const SymbolRun& operand) {
  if (step.wide.on) return accumulate(step, operand);
  const SymbolRun before = read(step.dst, step.bytes);
  const bool scales = plan_.scaling.on;
  const SymbolRun sum = combined(scales ? scaled(before, step.sum.dst) : before,
                                 scales ? scaled(operand, step.sum.src) : operand,
                                 [&](Symbol a, Symbol b) { return symbols_.sum(a, b); });
  write(step.dst, finished(sum, step.sum.completes));
}

// The sum is kept in the wide scratch until the accumulation's last addition; only that of large
// floats is at its destination, too.
void ReplayMemory::accumulate(const BoundStep& step, const SymbolRun& operand) {
  const bool scales = plan_.scaling.on;
  SymbolRun sum =
      step.wide.first ? read(step.dst, step.bytes) : wide_.read(beside(step), step.bytes);
  if (step.wide.first && scales) sum = scaled(sum, step.sum.dst);
  sum = combined(sum, scales ? scaled(operand, step.sum.src) : operand,
                 [&](Symbol a, Symbol b) { return symbols_.sum(a, b); });
  wide_.write(beside(step), sum);
  if (step.wide.last) write(step.dst, finished(sum, step.sum.completes));
}

SymbolRun ReplayMemory::fused(const Fusion& fusion, const std::vector<SymbolRun>& operands) const {
  const auto step = [&](size_t k) -> const BoundStep& {
    return plan_.steps[static_cast<size_t>(fusion.receives[k])];
  };
  const bool scales = plan_.scaling.on;
  SymbolRun sum = read(step(0).dst, step(0).bytes);
  if (scales) sum = scaled(sum, step(0).sum.dst);
  for (size_t k = 0; k < operands.size(); ++k)
    sum = combined(sum, scales ? scaled(operands[k], step(k).sum.src) : operands[k],
                   [&](Symbol a, Symbol b) { return symbols_.sum(a, b); });
  return finished(sum, step(operands.size() - 1).sum.completes);
}

void ReplayMemory::run(const BoundStep& step) {
  if (step.bytes == 0) return;
  const SymbolRun source = read(step.src, step.bytes);
  if (step.kind == StepKind::reduce) return add(step, source);
  write(step.dst, rounds_in_place(step) ? symbols_.encoded(source, step.wire) : source);
}

}  // namespace ringwood

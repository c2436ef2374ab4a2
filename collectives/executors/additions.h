// Performs the additions of one execution: plain ones, those of an accumulation that keeps its sum
// beside its place (Wide in plan.h), those of scaled operands (accumulate.h), and those of several
// operands at once (fusion.h). The plan says which applies. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/executors/plan_execution.h"

namespace ringwood {

class Additions final {
 public:
  void start(const PlanExecution& execution) {
    const Plan& plan = *execution.plan;
    execution_ = &execution;
    plain_ = !plan.scaling.on && plan.wide.bytes == 0;
    if (!plain_) start_special();
  }

  // Adds one piece of a reduction's operand, which begins `offset` bytes after the step's place and
  // has whole elements.
  void add(const BoundStep& step, size_t offset, std::span<const std::byte> piece) {
    if (!plain_) return add_special(step, offset, piece);
    const Plan& plan = *execution_->plan;
    reduce_bytes(execution_->at(step.dst) + offset, piece.data(), piece.size(), plan.key.args.type,
                 plan.key.args.op);
  }
  // places[...] = operands[0] + operands[1] + ..., this rank's operand first: `count` elements
  // of a fusion.
  void add_fused(const Fusion& fusion, std::span<void* const> places,
                 std::span<const void* const> operands, size_t count);

 private:
  void start_special();
  void add_special(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  void add_in_wide(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  void add_scaled(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  double scale_of(int32_t own) const;

  const PlanExecution* execution_ = nullptr;
  bool plain_ = true;         // every addition is plain
  bool divides_sum_ = false;  // an average divides the sum; its operands are added unscaled
  std::vector<double> scales_;
};

// Runs a local reduce or copy step that is not a rounding, from byte `done` on, for about `most`
// bytes; of a device's copy only what comes after it (BoundStep::premultiplies). Returns how many
// are done then.
size_t run_local(const PlanExecution& execution, Additions& additions, const BoundStep& step,
                 size_t done, size_t most);

// The part of `bytes` bytes that is worked on next where `most` are allowed: whole elements of
// every type, and at least some.
inline size_t slice(size_t bytes, size_t most) {
  constexpr size_t kUnit = 4096;
  return bytes <= most ? bytes : std::min(bytes, std::max(most / kUnit, size_t{1}) * kUnit);
}

}  // namespace ringwood

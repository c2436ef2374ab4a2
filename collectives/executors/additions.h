// The additions of an execution: plain ones, those of a row that keeps its sum beside its place
// (Wide in plan.h), those of scaled operands (row_sums.h), and those of several operands at once
// (fusion.h). Which of them is what is in the plan. One thread at a time.
#pragma once

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
    plain_ = !plan.scaling.on && plan.wide_bytes == 0;
    if (!plain_) start_special();
  }

  // A piece of a reduction's operand that begins `offset` bytes after the step's place, of whole
  // elements.
  void add(const BoundStep& step, size_t offset, std::span<const std::byte> piece) {
    if (!plain_) return add_special(step, offset, piece);
    const Plan& plan = *execution_->plan;
    reduce_bytes(execution_->at(step.dst) + offset, piece.data(), piece.size(), plan.args.type,
                 plan.args.op);
  }
  // places[...] = operands[0] + operands[1] + ..., ours first: `count` elements of a fusion's.
  void add_fused(const Fusion& fusion, std::span<void* const> places,
                 std::span<const void* const> operands, size_t count);

 private:
  void start_special();
  void add_special(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  void add_in_wide(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  void add_scaled(const BoundStep& step, size_t offset, std::span<const std::byte> piece);
  double scale_of(int32_t own) const;

  const PlanExecution* execution_ = nullptr;
  bool plain_ = true;         // every addition is
  bool divides_sum_ = false;  // an average's sum, which is of operands as they are
  std::vector<double> scales_;
};

// A reduce or a copy that is not a rounding.
void run_local(const PlanExecution& execution, Additions& additions, const BoundStep& step);

}  // namespace ringwood

// Whose copies touch the user's buffers.
#include "collectives/checker/checker_parts.h"
#include "collectives/kernels/accumulate.h"

namespace ringwood {
namespace {

bool touches_users(const Place& place) { return place.buffer != kScratch; }

// The factor of this rank belongs to what it contributes, once, unless it is applied as that is
// added.
bool takes_factors(const CollectiveArgs& args) {
  return reduces(args.collective) && args.op == ReduceOp::premul_sum &&
         !scales_operands(args.type, args.op);
}

// What is wrong with a step that moves bytes, or null.
const char* flaw_of(const BoundStep& step) {
  const bool reads = has_source(step) && touches_users(step.src);
  const bool writes = !sends(step) && touches_users(step.dst);
  const bool adds_to = adds_up(step) && touches_users(step.dst);
  switch (step.device) {
    case DeviceCopy::none:
      return reads || writes || adds_to ? "touches memory of a device, but not as a device's copy"
                                        : nullptr;
    case DeviceCopy::out:
      if (step.kind != StepKind::copy || step.wire != WireFormat::exact || !reads || writes)
        return "is no copy from the device to the scratch";
      return nullptr;
    case DeviceCopy::in:
      if (step.kind != StepKind::copy || step.wire != WireFormat::exact || reads || !writes)
        return "is no copy from the scratch to the device";
      return step.early ? "writes to the device before the ranks have agreed" : nullptr;
  }
  return "has an unknown direction";
}

}  // namespace

PlanFlaw check_device_copies(const PlanSet& set) {
  for (int rank = 0; rank < set.n(); ++rank) {
    const Plan& plan = set.of(rank);
    const bool device = plan.key.request.memory == MemoryKind::device;
    if (device && in_one_round(plan))
      return "rank " + std::to_string(rank) + ": memory of a device in one round";
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const BoundStep& step = plan.steps[s];
      if (step.bytes == 0) continue;
      const char* const flaw = device ? flaw_of(step)
                               : step.device != DeviceCopy::none
                                   ? "is a device's copy of host memory"
                                   : nullptr;
      const bool premultiplied =
          device && takes_factors(plan.key.args) && step.device == DeviceCopy::out;
      if (step.premultiplies != premultiplied)
        return plan_step_words(set, rank, s) +
               (premultiplied ? ": lacks this rank's factor" : ": has a factor too many");
      if (flaw) return plan_step_words(set, rank, s) + ": " + flaw;
    }
  }
  return std::nullopt;
}

}  // namespace ringwood

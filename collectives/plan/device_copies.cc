// Which copies a device carries out, and what the host does to what they bring.
#include "collectives/kernels/accumulate.h"
#include "collectives/plan/passes.h"

namespace ringwood {
namespace {

bool is_users(const Place& place) { return place.buffer != kScratch; }

}  // namespace

Plan add_device_copies(Plan plan) {
  plan.key.request.memory = MemoryKind::device;
  plan.fingerprint.memory = static_cast<uint8_t>(MemoryKind::device);
  const CollectiveArgs& args = plan.key.args;
  const bool factors = reduces(args.collective) && args.op == ReduceOp::premul_sum &&
                       !scales_operands(args.type, args.op);
  for (BoundStep& step : plan.steps) {
    if (step.kind != StepKind::copy || step.bytes == 0) continue;
    if (is_users(step.src)) step.device = DeviceCopy::out;
    if (is_users(step.dst)) step.device = DeviceCopy::in;
    step.premultiplies = factors && step.device == DeviceCopy::out;
  }
  return plan;
}

}  // namespace ringwood

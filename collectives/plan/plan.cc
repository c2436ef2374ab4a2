#include "collectives/plan/plan.h"

#include "collectives/plan/buffers.h"
#include "collectives/plan/passes.h"
#include "collectives/schedule/compose.h"

namespace ringwood {

std::shared_ptr<Plan> make_plan(const Schedule& schedule, const CollectiveArgs& args,
                                const std::string& algorithm, int segment_count, Protocol protocol,
                                const Wire& wire, const Sums* sums, const ProtocolLimits& limits,
                                MemoryKind memory) {
  const bool staged = memory == MemoryKind::device;
  const bool early =
      !staged && !(sums && sums->apart) && begins_early(schedule, args, protocol, wire, limits);
  const bool copied = staged || (early && !moves_in_scratch(schedule));
  const Bundled bundled = bundle(copied ? in_scratch(schedule) : schedule, args, limits, wire);
  Plan plan = add_protocol(bind(bundled.schedule, args, algorithm, segment_count), protocol, wire);
  if (early) plan = add_early(std::move(plan));
  if (staged) plan = add_device_copies(std::move(plan));
  plan.form.bundles = bundled.count;
  plan = add_wire(std::move(plan), wire);
  if (sums) plan = add_scaling(std::move(plan), *sums);
  plan = add_rounding(std::move(plan), !sums || sums->accumulations_agree);
  plan.memory.uses = uses_of(plan.steps);
  return std::make_shared<Plan>(add_recording(add_fusion(std::move(plan), limits), 0));
}

}  // namespace ringwood

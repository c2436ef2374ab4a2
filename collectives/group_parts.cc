#include "collectives/runtime/group_parts.h"

#include "collectives/communicator.h"
#include "collectives/epochs/change_parameters.h"
#include "collectives/runtime/plan_cache.h"
#include "transports/base/error.h"
#include "transports/mesh.h"

namespace ringwood {

const GroupParts& parts_of(const Communicator& group) {
  return dynamic_cast<const GroupParts&>(group);
}

void change_parameters(Communicator& group, const MachineModel& machine) {
  if (group.rank() != 0)
    throw Error(ErrorCode::invalid_argument, "change_parameters: only rank 0 changes them");
  const GroupParts& parts = parts_of(group);
  parts.mesh().control->propose(parts.plans().proposal(machine));
}

}  // namespace ringwood

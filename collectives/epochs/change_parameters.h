// Other parameters for a group that runs (epochs.h).
#pragma once

#include "collectives/machine/machine_model.h"

namespace ringwood {

class Communicator;  // communicator.h

// To be called by rank 0, without the others' doing: from an operation on that all ranks agree on,
// collectives are chosen by the network's parameters of `machine`. Rank 0 logs which and what
// changes. Where a rank does not answer within 1 s nothing happens. Returns at once. `group` is of
// Communicator::create().
void change_parameters(Communicator& group, const MachineModel& machine);

}  // namespace ringwood

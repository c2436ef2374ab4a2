// The parameters from which a group chooses its algorithms: those that rank 0 announces to all.
#pragma once

#include <string>

#include "collectives/machine/machine_model.h"
#include "transports/base/options.h"
#include "transports/mesh.h"

namespace ringwood {

// What rank 0 announces (make_mesh): the parameters of its host, measured at most once in a
// process, and whether ranks of a host may use shared memory.
std::string announced_parameters(const Options& options);

// The announced parameters, with the host and node of every rank: equal on all ranks. Throws
// Error(invalid_argument) for an announcement of another version.
MachineModel machine_model_of(const Mesh& mesh);

}  // namespace ringwood

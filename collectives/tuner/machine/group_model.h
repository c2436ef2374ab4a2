// The parameters from which a group chooses its algorithms: those that rank 0 announces to all.
#pragma once

#include <string>

#include "collectives/tuner/machine/machine_model.h"
#include "transports/base/options.h"
#include "transports/mesh.h"

namespace ringwood {

// The parameters of this host, measured at most once in a process, and whether ranks of a host may
// use shared memory.
MachineModel host_parameters(const Options& options);

// The same as text: what rank 0 announces (make_mesh).
std::string announced_parameters(const Options& options);

// How far a sender in shared memory is ahead: by its ring, as the options have it, of which hosts
// of many ranks have smaller ones. `n` ranks, placed as the machine says.
void use_rings(MachineModel& machine, int n, const Options& options);
// What verbs links make of these options, where links between hosts are verbs.
void use_rings(MachineModel& machine, const VerbsOptions& options);
// Both, for a group that is not there but would have these options.
void use_all_rings(MachineModel& machine, int n, const Options& options);

// The rails that this rank's verbs links to other hosts cut messages over: the fewest of any; 1
// where none is verbs.
int striped_rails(const Mesh& mesh);

// Between hosts, once the links are made: agrees on the parameters of hosts and network, which
// replace Mesh::announcement on all ranks. Each host's parameters are measured there, and the
// network's by the probe (probe.h), unless they are known for such a network and its latency is
// still within a factor of 2. Rank 0 decides, by its RINGWOOD_CALIBRATION, and names hosts that are
// slower than half of the others in a warning. On one host nothing happens. Collective; throws
// Error.
void agree_on_parameters(Mesh& mesh, const Options& options);

// The network's parameters, measured now whatever is known, by ranks whose links of this channel
// are idle; alike on all ranks. Mesh::announcement remains. Collective; throws Error.
NetworkParameters measure_again(Mesh& mesh, const Options& options, int channel);

// The announced parameters, with the host and node of every rank, and with rings of shared memory
// as large as hosts of so many ranks have them: equal on all ranks. Throws
// Error(invalid_argument) for an announcement of another version.
MachineModel machine_model_of(const Mesh& mesh);

}  // namespace ringwood

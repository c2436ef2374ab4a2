// This rank's identity, as launchers give it: torchrun, mpirun, srun.
#pragma once

#include <string>

namespace ringwood {

struct LaunchEnvironment {
  int rank = -1, world_size = -1, local_rank = -1, local_size = -1;  // -1: not given
  std::string master_addr;                                           // empty: not given
  int master_port = 0;
  std::string launcher;  // "torchrun", "mpirun", "srun", "env", "" (none found)
};
// Reads RANK/WORLD_SIZE/LOCAL_RANK/MASTER_ADDR/MASTER_PORT, then OMPI_COMM_WORLD_*,
// PMI_*/PMIX_RANK, SLURM_*. Throws Error(invalid_argument) naming a variable that is not a number.
LaunchEnvironment read_launch_environment();

}  // namespace ringwood

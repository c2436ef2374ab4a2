// This rank's identity and its job's, as launchers give them: torchrun, mpirun, srun.
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

// What launchers say about the job, as far as it can be read: ids, empty where there is none.
struct JobEnvironment {
  std::string run_id;         // torchrun's, unless it is the "none" that all runs without one have
  std::string mpi_job;        // mpirun's, if it has given the rank: others inherit its variables
  std::string scheduler_job;  // "Slurm job 77"
  int restart_count = -1;     // torchrun's, of its node `node`; -1: not given
  int node = -1;
};
JobEnvironment read_job_environment();

}  // namespace ringwood

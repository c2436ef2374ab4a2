// This rank's identity, from the variables of the launcher: the second and last place that reads
// the environment.
#include "transports/bootstrap/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "transports/base/error.h"
#include "transports/base/hash.h"

namespace ringwood {
namespace {

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// -1: it is none, or not set.
int number_or_none(const char* name) {
  const std::string text = text_of(name);
  int value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

// -1: not set.
int number_of(const char* name) {
  const std::string text = text_of(name);
  const int value = number_or_none(name);
  if (value < 0 && !text.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}=\"{}\": expected a number from 0", name, text));
  }
  return value;
}

// The first of the variables that is set, as a number.
int first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (int value = number_of(name); value >= 0) return value;
  }
  return -1;
}

// One launcher: the variables with which it gives rank, size, rank and size on the host, and an
// identity that only the ranks of one job share.
struct Launcher {
  const char* name;
  std::initializer_list<const char*> rank, size, local_rank, local_size, job;
};
const Launcher kLaunchers[] = {
    {"env", {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}, {}},
    {"mpirun",
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}},
    // Before PMI: srun --mpi=pmi2 and --mpi=pmix set those as well, but srun's own say more.
    {"srun",
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {"SLURM_LOCALID"},
     {},
     {"SLURM_JOB_ID", "SLURM_JOBID"}},
    {"mpirun",
     {"PMI_RANK", "PMIX_RANK"},
     {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"},
     {"MPI_LOCALRANKID", "PMIX_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PMIX_LOCAL_SIZE"},
     {"PMI_KVSNAME", "PMIX_NAMESPACE"}},
};

// The parts of a heterogeneous Slurm job have ids of their own, beside that of the whole.
struct Scheduler {
  const char* name;
  std::initializer_list<const char*> job;
};
const Scheduler kSchedulers[] = {{"Slurm", {"SLURM_HET_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID"}},
                                 {"PBS", {"PBS_JOBID"}},
                                 {"LSF", {"LSB_JOBID"}},
                                 {"Flux", {"FLUX_JOB_ID"}}};

// "node[03-07,9],other" -> "node03"; "" if it is more than a name and a list of numbers.
std::string first_host(const std::string& list) {
  size_t end = list.find_first_of(",[");
  if (end == list.npos || list[end] == ',') return list.substr(0, end);
  size_t close = list.find(']', end);
  if (close == list.npos) return "";
  std::string_view numbers = std::string_view(list).substr(end + 1, close - end - 1);
  std::string_view first = numbers.substr(0, numbers.find_first_of(",-"));
  if (first.empty() || first.find_first_not_of("0123456789") != first.npos) return "";
  std::string_view rest = std::string_view(list).substr(close + 1);
  std::string_view suffix = rest.substr(0, rest.find(','));
  if (suffix.find('[') != suffix.npos) return "";
  return fmt::format("{}{}{}", list.substr(0, end), first, suffix);
}

// Rank 0 runs on the first host of the step. The address of srun itself may be a login node, so it
// comes last.
std::string slurm_master() {
  if (first_of({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) == 1)
    return "127.0.0.1";
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (std::string host = first_host(text_of(name)); !host.empty()) return host;
  }
  return text_of("SLURM_LAUNCH_NODE_IPADDR");
}

std::string first_text(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string text = text_of(name); !text.empty()) return text;
  return "";
}

// Below the ports that the kernel assigns itself (32768 and up), the same in every rank of the job,
// different in two jobs of one host. Without a job id the launcher's process id is used, which is
// the same on one host only.
int port_of_job(const Launcher& launcher) {
  std::string job = first_text(launcher.job);
  if (job.empty()) job = std::to_string(getppid());
  // std::hash may differ between builds on two hosts.
  return 20000 + static_cast<int>(fnv1a(job) % 12000);
}

void complete_master(const Launcher& launcher, LaunchEnvironment& found) {
  std::string_view name = launcher.name;
  if (name == "env") return;
  if (found.master_addr.empty() && name == "srun") found.master_addr = slurm_master();
  bool one_host = found.local_size > 0 && found.local_size == found.world_size;
  if (found.master_addr.empty() && one_host) found.master_addr = "127.0.0.1";
  if (found.master_port == 0 && !found.master_addr.empty())
    found.master_port = port_of_job(launcher);
}

}  // namespace

LaunchEnvironment read_launch_environment() {
  LaunchEnvironment found;
  found.master_addr = text_of("MASTER_ADDR");
  found.master_port = std::max(0, number_of("MASTER_PORT"));
  if (found.master_port > 65535) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("MASTER_PORT=\"{}\": expected a port from 0 to 65535", found.master_port));
  }
  for (const Launcher& launcher : kLaunchers) {
    found.rank = first_of(launcher.rank);
    if (found.rank < 0) continue;
    found.world_size = first_of(launcher.size);
    found.local_rank = first_of(launcher.local_rank);
    found.local_size = first_of(launcher.local_size);
    found.launcher = launcher.name;
    if (found.launcher == "env" && !text_of("TORCHELASTIC_RUN_ID").empty())
      found.launcher = "torchrun";
    complete_master(launcher, found);
    return found;
  }
  found.world_size = number_of("WORLD_SIZE");
  return found;
}

JobEnvironment read_job_environment() {
  JobEnvironment found;
  found.run_id = text_of("TORCHELASTIC_RUN_ID");
  if (found.run_id == "none") found.run_id.clear();
  for (const Launcher& launcher : kLaunchers) {
    if (first_text(launcher.rank).empty()) continue;
    if (std::string_view(launcher.name) == "mpirun") found.mpi_job = first_text(launcher.job);
    break;
  }
  for (const Scheduler& scheduler : kSchedulers) {
    const std::string id = first_text(scheduler.job);
    if (id.empty()) continue;
    found.scheduler_job = fmt::format("{} job {}", scheduler.name, id);
    break;
  }
  found.restart_count = number_or_none("TORCHELASTIC_RESTART_COUNT");
  found.node = number_or_none("GROUP_RANK");
  return found;
}

}  // namespace ringwood

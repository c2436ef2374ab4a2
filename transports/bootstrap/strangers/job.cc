#include "transports/bootstrap/strangers/job.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <vector>

#include "transports/base/bytes.h"
#include "transports/base/hash.h"
#include "transports/base/host.h"
#include "transports/base/options.h"
#include "transports/bootstrap/launch.h"

namespace ringwood {
namespace {

// As it travels and is printed. Long ones differ by a hash of all of it.
std::string job_id(const std::string& text) {
  std::string id = printable(text);
  if (id.size() <= kMaxJobId) return id;
  const std::string hash = fmt::format("~{:016x}", fnv1a_64(id));
  return std::string(clip(id, kMaxJobId - hash.size())) + hash;
}

std::string describe(size_t kind, const std::string& id) {
  switch (static_cast<JobIdKind>(kind)) {
    case JobIdKind::user: return fmt::format("job {} (RINGWOOD_JOB_ID)", id);
    case JobIdKind::torchrun: return "torchrun's run " + id;
    case JobIdKind::mpirun: return "mpirun's job " + id;
    case JobIdKind::scheduler: return id;
  }
  return id;
}

std::string difference_of_ids(const JobIdentity& mine, const JobIdentity& theirs) {
  for (size_t kind = 0; kind < kJobIdKinds; ++kind) {
    const std::string &here = mine.ids[kind], &there = theirs.ids[kind];
    if (here.empty() || there.empty()) continue;
    if (here == there) return "";
    return fmt::format(
        "it belongs to {}, this side to {} (if they are one job, set RINGWOOD_JOB_ID alike on all "
        "ranks)",
        describe(kind, there), describe(kind, here));
  }
  return "";
}

bool have_different_attempts(const JobIdentity& one, const JobIdentity& other) {
  const bool one_node = one.node < 0 || other.node < 0 || one.node == other.node;
  return one_node && one.attempt >= 0 && other.attempt >= 0 && one.attempt != other.attempt;
}

}  // namespace

JobIdentity job_of(const Options& options, int ranks) {
  const JobEnvironment launched = read_job_environment();
  JobIdentity job;
  const std::string* ids[] = {&options.job_id, &launched.run_id, &launched.mpi_job,
                              &launched.scheduler_job};
  static_assert(std::size(ids) == kJobIdKinds);
  for (size_t kind = 0; kind < kJobIdKinds; ++kind) job.ids[kind] = job_id(*ids[kind]);
  job.ranks = ranks;
  job.attempt = launched.restart_count;
  job.node = launched.node;
  if (const std::string users = users_token(); options.key_file.empty() && !users.empty()) {
    job.users = fnv1a_64(users);
    job.user = geteuid();
  }
  return job;
}

std::string difference(const JobIdentity& mine, const JobIdentity& theirs) {
  std::vector<std::string> all;
  if (std::string ids = difference_of_ids(mine, theirs); !ids.empty()) all.push_back(ids);
  if (mine.ranks > 0 && theirs.ranks > 0 && mine.ranks != theirs.ranks)
    all.push_back(fmt::format("its group has {} ranks, this side's {}", theirs.ranks, mine.ranks));
  if (have_different_attempts(mine, theirs))
    all.push_back(
        fmt::format("it is of attempt {} of the job, this side of attempt {} "
                    "(TORCHELASTIC_RESTART_COUNT)",
                    theirs.attempt, mine.attempt));
  if (mine.users != 0 && mine.users == theirs.users && mine.user != theirs.user)
    all.push_back(
        fmt::format("it runs as user {} of this host, this side as user {} (with a "
                    "RINGWOOD_KEY_FILE, users may share a job)",
                    theirs.user, mine.user));
  return fmt::format("{}", fmt::join(all, "; "));
}

bool is_later_attempt(const JobIdentity& mine, const JobIdentity& theirs) {
  return difference_of_ids(mine, theirs).empty() && have_different_attempts(mine, theirs) &&
         theirs.attempt > mine.attempt;
}

}  // namespace ringwood

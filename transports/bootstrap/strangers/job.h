// Which job a process belongs to. Two processes that meet at a port, or in a store, compare this
// before one becomes a rank of the other's group: a rank of another job, of an earlier attempt of
// this one, or of another user of this host is refused, and both sides say what differs.
//
// These are facts, not secrets: they keep apart jobs that meet by chance. Against people who lie
// there is the key file (handshake.h). What one side does not know matches anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ringwood {

struct Options;  // options.h

// Who gave the job an id, the most certain first. Launchers nest: the first kind that both sides
// know decides, so that a run of torchrun may span two jobs of the scheduler.
enum class JobIdKind : uint8_t { user, torchrun, mpirun, scheduler };
inline constexpr size_t kJobIdKinds = 4;
inline constexpr size_t kMaxJobId = 40;

struct JobIdentity {
  std::array<std::string, kJobIdKinds> ids;  // by kind; empty: not known
  int32_t ranks = 0;                         // of the group that is being made; 0: not known
  // torchrun's restart count; -1: not known. Each node counts the restarts of its own, so only
  // ranks of one node have to agree; `node`: which of torchrun's, -1: not known.
  int32_t attempt = -1, node = -1;
  // Equal only where user ids mean the same users; 0: they are not compared, as in containers, on
  // other hosts, and with a key file, which says who may come.
  uint64_t users = 0;
  uint32_t user = 0;
};

// As the launcher's variables and the options have it. Any thread.
JobIdentity job_of(const Options& options, int ranks);

// What differs: "it belongs to Slurm job 78, this side to Slurm job 77"; "" if they may meet. Of
// both sides, one finds a difference if and only if the other does.
std::string difference(const JobIdentity& mine, const JobIdentity& theirs);

// They are of a later attempt than this process, which is the one that is left over.
bool is_later_attempt(const JobIdentity& mine, const JobIdentity& theirs);

// The most that its fields take.
inline constexpr size_t kJobBytes = kJobIdKinds * (4 + kMaxJobId) + 3 * 4 + 8 + 4;

void fields(auto& io, JobIdentity& job) {
  for (std::string& id : job.ids) io.text(id, kMaxJobId);
  io.number(job.ranks);
  io.number(job.attempt);
  io.number(job.node);
  io.number(job.users);
  io.number(job.user);
}

}  // namespace ringwood

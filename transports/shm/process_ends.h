// How a rank learns that the process of another rank of its host has ended, in whatever way.
//
//   every rank   holds the writing end of a pipe, alone: neither a forked child nor a program that
//                it starts keeps it (fork_guard.h)
//   its peers    hold copies of the reading end, on which the kernel reports a hang-up once the
//                writing end is closed: by the end of the process, or with the rank's transport
//
// 1. Nothing is written to a pipe, and what a peer gives instead of one can only end its own links.
// 2. A hang-up rings the rank's wait set. next() tells of each once, and is one system call: it is
//    for a rank that has waited, not for every iteration.
// 3. A peer's writes come before its hang-up: after next(), all that it sent is visible.
//
// Pipes and not pidfds: ranks may be threads of one process, or have process numbers of different
// namespaces.
//
// Thread safety: one thread at a time. The wait set outlives it.
#pragma once

#include <vector>

#include "transports/base/owned_fd.h"
#include "transports/base/wait_set.h"

namespace ringwood::shm {

class ProcessEnds final {
 public:
  // `members`: of the host. Throws Error(system).
  ProcessEnds(WaitSet& wait_set, size_t members);
  ~ProcessEnds();
  ProcessEnds(const ProcessEnds&) = delete;
  ProcessEnds& operator=(const ProcessEnds&) = delete;

  // The reading end of this rank's pipe, to be sent to the others. Only the first call has it.
  OwnedFd take_reading_end() { return std::move(reading_end_); }
  // If the kernel refuses that, the log says so, and next() never tells of this member.
  void watch(int member, OwnedFd reading_end);
  // A watched member whose process has ended, and that was not told before; -1: none.
  int next() noexcept;

 private:
  WaitSet& wait_set_;
  OwnedFd reading_end_, writing_end_;
  OwnedFd epoll_;                 // all hang-ups, as one descriptor in the wait set
  std::vector<OwnedFd> watched_;  // by member; empty: not watched, or told
};

}  // namespace ringwood::shm

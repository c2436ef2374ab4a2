// Private copies of the arena's blocks (arena.h) for forked children, as fork() makes of ordinary
// memory.
//
// The arena's pages are kept out of children; there, ordinary memory is mapped at the same
// addresses instead. The blocks are copied at once, not when written: fork() returns in the parent
// when the child has its copies. The child copies before any other code runs in it, with
// async-signal-safe calls only. At most one object of a process is active. Lock order: a fork holds
// the mutex of the blocks until the child has its copies; meanwhile it takes only the fork guard's.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>

#include "transports/base/fork_guard.h"
#include "transports/memory/block_table.h"

namespace ringwood {

class ForkCopies final {
 public:
  // `memory` is where `fd` is mapped, `lock` guards `blocks`; all must outlive the last fork.
  ForkCopies(std::span<std::byte> memory, int fd, const BlockTable& blocks, std::mutex& lock)
      : memory_(memory), fd_(fd), blocks_(blocks), lock_(lock) {}
  // Takes effect for all later forks. Idempotent, any thread. Throws Error(system).
  void start();

 private:
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  bool take_addresses() noexcept;
  bool copy() noexcept;

  const std::span<std::byte> memory_;
  const int fd_;
  const BlockTable& blocks_;
  std::mutex& lock_;
  const int pid_ = current_pid();
  int copy_fd_ = -1;  // the same file, not closed in forks; -1: forks get no copies
  ForkHandover handover_;
};

}  // namespace ringwood

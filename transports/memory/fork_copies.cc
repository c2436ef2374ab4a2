#include "transports/memory/fork_copies.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "transports/base/error.h"

namespace ringwood {
namespace {

std::atomic<ForkCopies*> active{nullptr};

}  // namespace

void ForkCopies::start() {
  std::lock_guard lock(lock_);
  if (copy_fd_ >= 0) return;
  copy_fd_ = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy_fd_ < 0) throw Error(ErrorCode::system, system_message("fcntl"));
  active.store(this);
  static const int installed =
      ForkHandover::install(&before_fork, &after_fork_in_parent, &after_fork_in_child);
  (void)installed;  // fails only without memory, and then forks get no copies
}

// The mutex keeps the table of blocks consistent.
void ForkCopies::before_fork() {
  ForkCopies* copies = active.load();
  if (!copies || forked_since(copies->pid_)) return;
  copies->lock_.lock();
  copies->handover_.before_fork();
}

void ForkCopies::after_fork_in_parent() {
  ForkCopies* copies = active.load();
  if (!copies || forked_since(copies->pid_)) return;
  copies->handover_.wait_for_child();
  copies->lock_.unlock();
}

// The parent's arena is dead here (Arena::of_process() makes another).
void ForkCopies::after_fork_in_child() {
  ForkCopies* copies = active.exchange(nullptr);
  if (!copies || copies->copy_fd_ < 0) return;
  if (!copies->copy()) {
    constexpr char kWhy[] = "ringwood: no memory for a forked process's copy of shared tensors\n";
    (void)!::write(2, kWhy, sizeof kWhy - 1);
    ::_exit(71);
  }
  ::close(copies->copy_fd_);
  copies->handover_.done_in_child();
}

// If so much ordinary memory may not be mapped (vm.overcommit_memory = 2, ulimit -d), maps only
// what is in use.
bool ForkCopies::take_addresses() noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  std::byte* const base = memory_.data();
  if (::mmap(base, memory_.size(), PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED)
    return true;
  if (::mmap(base, memory_.size(), PROT_NONE, kFlags, -1, 0) == MAP_FAILED) return false;
  return blocks_.each_of_forks([base](uint64_t offset, uint64_t bytes) {
    return ::mprotect(base + offset, bytes, PROT_READ | PROT_WRITE) == 0;
  });
}

bool ForkCopies::copy() noexcept {
  if (!take_addresses()) return false;
  return blocks_.each_of_forks([this](uint64_t offset, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t n = ::pread(copy_fd_, memory_.data() + offset + done, bytes - done,
                                static_cast<off_t>(offset + done));
      if (n <= 0) return false;
      done += static_cast<uint64_t>(n);
    }
    return true;
  });
}

}  // namespace ringwood

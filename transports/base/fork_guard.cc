#include "transports/base/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <vector>

namespace ringwood {
namespace {

// The pipe of a fork that is under way.
struct OpenHandover {
  pthread_t thread;
  int pipe[2];
};

struct ForkTable {
  std::mutex mutex;
  std::vector<int> fds;
  std::vector<OpenHandover> handovers;
  std::atomic<int> pid{0};  // of this process; updated in every child

  void forget(int fd) noexcept {
    auto found = std::find(fds.begin(), fds.end(), fd);
    if (found == fds.end()) return;
    *found = fds.back();
    fds.pop_back();
  }
};

// Never destroyed: a fork may happen while the process is ending.
ForkTable& fork_table() {
  static auto* table = new ForkTable;
  return *table;
}

void before_fork() { fork_table().mutex.lock(); }

void after_fork_in_parent() { fork_table().mutex.unlock(); }

// Only async-signal-safe calls. The number stays taken (by /dev/null), because objects that the
// child has inherited will close it once more, and must not close a file that the child has opened
// since.
void after_fork_in_child() {
  ForkTable& table = fork_table();
  int null = table.fds.empty() ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : table.fds) {
    if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0) close(fd);
  }
  if (null >= 0) close(null);
  table.fds.clear();
  for (const OpenHandover& handover : table.handovers) {
    if (pthread_equal(handover.thread, pthread_self())) continue;
    for (const int end : handover.pipe) close(end);
  }
  table.handovers.clear();
  table.pid.store(getpid(), std::memory_order_relaxed);
  table.mutex.unlock();
}

void install() {
  static const int installed = [] {
    fork_table().pid.store(getpid(), std::memory_order_relaxed);
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  }();
  (void)installed;  // fails only without memory, and then the guard is merely absent
}

}  // namespace

int open_guarded(const std::function<int()>& open) {
  install();
  ForkTable& table = fork_table();
  std::lock_guard lock(table.mutex);
  table.fds.reserve(table.fds.size() + 1);  // nothing may fail once the descriptor is open
  const int fd = open();
  if (fd >= 0) table.fds.push_back(fd);
  return fd;
}

void close_on_fork(int fd) {
  install();
  fcntl(fd, F_SETFD, fcntl(fd, F_GETFD) | FD_CLOEXEC);
  ForkTable& table = fork_table();
  std::lock_guard lock(table.mutex);
  table.fds.push_back(fd);
}

void forget_on_fork(int fd) noexcept {
  ForkTable& table = fork_table();
  std::lock_guard lock(table.mutex);
  table.forget(fd);
}

void close_and_forget(int fd) noexcept {
  ForkTable& table = fork_table();
  std::lock_guard lock(table.mutex);
  table.forget(fd);
  close(fd);
}

int current_pid() noexcept {
  int pid = fork_table().pid.load(std::memory_order_relaxed);
  return pid != 0 ? pid : getpid();
}

bool forked_since(int pid_at_creation) noexcept { return current_pid() != pid_at_creation; }

int ForkHandover::install(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  ringwood::install();  // first, so that the table is not locked yet in `before`
  return pthread_atfork(before, in_parent, in_child);
}

void ForkHandover::before_fork() noexcept {
  ForkTable& table = fork_table();
  std::lock_guard lock(table.mutex);
  if (pipe2(pipe_, O_CLOEXEC) != 0) {
    pipe_[0] = pipe_[1] = -1;
    return;
  }
  try {
    table.handovers.push_back({pthread_self(), {pipe_[0], pipe_[1]}});
  } catch (const std::bad_alloc&) {
    // Then it is not closed in other children.
  }
}

void ForkHandover::wait_for_child() noexcept {
  if (pipe_[1] < 0) return;
  {
    ForkTable& table = fork_table();
    std::lock_guard lock(table.mutex);
    std::erase_if(table.handovers,
                  [this](const OpenHandover& handover) { return handover.pipe[1] == pipe_[1]; });
    close(pipe_[1]);
  }
  char done;
  while (read(pipe_[0], &done, 1) < 0 && errno == EINTR) {
  }
  close(pipe_[0]);
  pipe_[0] = pipe_[1] = -1;
}

void ForkHandover::done_in_child() noexcept {
  if (pipe_[0] < 0) return;
  constexpr char kDone = 'd';
  (void)!write(pipe_[1], &kDone, 1);
  for (int& end : pipe_) {
    close(end);
    end = -1;
  }
}

}  // namespace ringwood

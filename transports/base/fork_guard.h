// Descriptors that must not survive a fork.
//
// A DataLoader worker inherits every socket of its parent. If the parent is then killed, the peer
// sees no end of connection until the worker is gone as well, and a death goes unnoticed for
// seconds. So the child closes these descriptors at once (pthread_atfork). The table is
// process-wide, because the whole process forks. In the child the number stays taken by /dev/null,
// so that objects which the child inherited may close it once more without closing a file that the
// child has opened since.
#pragma once

#include <functional>
#include <memory>

namespace ringwood {

// Opens and registers in one step: between two steps a fork could copy the descriptor. `open`
// returns a descriptor that has CLOEXEC, or -1 with errno.
int open_guarded(const std::function<int()>& open);
// Register and forget. Thread safe. close_on_fork also sets FD_CLOEXEC.
void close_on_fork(int fd);
void forget_on_fork(int fd) noexcept;
// Forgets and closes in one step: between two steps a fork could copy the descriptor.
void close_and_forget(int fd) noexcept;

// getpid() without a system call, once close_on_fork() was called.
int current_pid() noexcept;
// True in a process that was forked since: communicators of the parent are dead here.
bool forked_since(int pid_at_creation) noexcept;

// Lets fork() return in the parent only once the child has called done_in_child(), or has died.
//
// Children that other threads start meanwhile inherit the pipe, and may live for hours. So what
// counts is a byte that the child writes; and every other fork() closes the pipe in its child, so
// that its end tells of a child that has died. (Where such a child was started without fork
// handlers, as by posix_spawn(), that is told when it calls exec().)
//
// One fork at a time for an object, by one thread from before_fork() to wait_for_child().
class ForkHandover {
 public:
  // pthread_atfork() for handlers that use an object of this class: they stand around those of
  // this file.
  static int install(void (*before)(), void (*in_parent)(), void (*in_child)());
  void before_fork() noexcept;
  void wait_for_child() noexcept;  // in the parent
  void done_in_child() noexcept;   // async-signal-safe

 private:
  int pipe_[2] = {-1, -1};
};

// Deleter for objects that own a thread. A forked child has no such thread and finds its mutexes as
// the fork froze them, so there the object is abandoned.
template <class T>
class AbandonAfterFork {
 public:
  void operator()(T* object) const {
    if (!forked_since(pid_)) delete object;
  }

 private:
  int pid_ = current_pid();
};
template <class T>
using OwnedHere = std::unique_ptr<T, AbandonAfterFork<T>>;

}  // namespace ringwood

// A fork waits for its own child, and not for what other threads start meanwhile.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "transports/base/fork_guard.h"

namespace ringwood {
namespace {

// How another thread starts a process while a fork is under way. `without_handlers`: as
// posix_spawn() does.
enum class Start { fork, without_handlers };

// Lives until it is ended, or for so long that the test has failed.
[[noreturn]] void live() {
  ::alarm(30);
  for (;;) ::pause();
}

pid_t start_in_a_thread(Start how) {
  pid_t child = -1;
  std::thread([&] {
    child = how == Start::fork ? ::fork()
                               : static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) live();
  }).join();
  return child;
}

// True if it lived still.
bool end(pid_t child) {
  const bool lived = ::waitpid(child, nullptr, WNOHANG) == 0;
  ::kill(child, SIGKILL);
  if (lived) ::waitpid(child, nullptr, 0);
  return lived;
}

TEST(ForkHandover, EndsWhenItsOwnChildIsDone) {
  ASSERT_EQ(ForkHandover::install(nullptr, nullptr, nullptr), 0);
  for (const Start how : {Start::fork, Start::without_handlers}) {
    ForkHandover handover;
    handover.before_fork();
    const pid_t other = start_in_a_thread(how);
    const pid_t own = ::fork();
    if (own == 0) {
      handover.done_in_child();
      live();
    }
    handover.wait_for_child();
    EXPECT_TRUE(end(other)) << "the fork waited for the child of another thread";
    EXPECT_TRUE(end(own)) << "the fork waited for the end of its child";
  }
}

TEST(ForkHandover, EndsWhenItsOwnChildHasDied) {
  ASSERT_EQ(ForkHandover::install(nullptr, nullptr, nullptr), 0);
  ForkHandover handover;
  handover.before_fork();
  const pid_t other = start_in_a_thread(Start::fork);
  const pid_t own = ::fork();
  if (own == 0) ::_exit(0);
  handover.wait_for_child();
  EXPECT_TRUE(end(other)) << "the fork waited for the child of another thread";
  EXPECT_EQ(::waitpid(own, nullptr, 0), own);
}

TEST(ForkHandover, WaitsUntilItsChildIsDone) {
  ASSERT_EQ(ForkHandover::install(nullptr, nullptr, nullptr), 0);
  int done[2];
  ASSERT_EQ(::pipe(done), 0);
  ForkHandover handover;
  handover.before_fork();
  const pid_t own = ::fork();
  if (own == 0) {
    const bool told = ::write(done[1], "d", 1) == 1;
    handover.done_in_child();
    ::_exit(told ? 0 : 1);
  }
  handover.wait_for_child();
  pollfd before{done[0], POLLIN, 0};
  EXPECT_EQ(::poll(&before, 1, 0), 1);
  EXPECT_EQ(::waitpid(own, nullptr, 0), own);
  for (const int end : done) ::close(end);
}

}  // namespace
}  // namespace ringwood

// What a program that a rank starts gets of the rank's descriptors: nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>

#include "tests/bootstrap/free_port.h"
#include "tests/support/errors.h"
#include "tests/support/processes.h"
#include "tests/support/transports.h"
#include "transports/bootstrap/store.h"
#include "transports/mesh.h"

namespace ringwood {
namespace {

using namespace ringwood::testing;

// A call that gives a descriptor, and the bit of an argument without which a program started at
// this moment would inherit it; -1: it has none.
struct Call {
  int number, argument;
  unsigned flag;
};
const Call kCalls[] = {
    {SYS_accept, -1, 0},
    {SYS_accept4, 3, SOCK_CLOEXEC},
    {SYS_socket, 1, SOCK_CLOEXEC},
    {SYS_socketpair, 1, SOCK_CLOEXEC},
    {SYS_dup, -1, 0},
    {SYS_pipe2, 1, O_CLOEXEC},
    {SYS_eventfd2, 1, EFD_CLOEXEC},
    {SYS_epoll_create1, 0, EPOLL_CLOEXEC},
    {SYS_timerfd_create, 1, TFD_CLOEXEC},
    {SYS_memfd_create, 1, MFD_CLOEXEC},
};

// From now on the kernel refuses (EPERM) to give this process a descriptor without that bit.
void refuse_inheritable() {
  std::vector<sock_filter> program;
  for (const Call& call : kCalls) {
    const auto argument =
        static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * std::max(0, call.argument));
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 3));
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, call.flag, 1, 0));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, 2, &all) != 0)
    throw std::runtime_error("no seccomp here");
}

// How many descriptors a program has that is started now.
std::string inherited() {
  FILE* out = popen("ls /proc/self/fd | wc -l", "re");
  char line[32] = {};
  if (!out || !fgets(line, sizeof(line), out)) return "?";
  pclose(out);
  return std::string(line, strcspn(line, "\n"));
}

// One rank of a job: its store's server or a client, listener, control, and data connections. They
// stay until `meanwhile` returns, which is when the test has heard of both ranks.
void set_up(const std::string& transport, int rank, int port,
            const std::function<void()>& meanwhile) {
  Options options;
  options.transports = {transport};
  options.init_timeout = kPatience;
  auto store = tcp_store("127.0.0.1", port, rank == 0, patiently());
  auto mesh = make_mesh(store, rank, 2, options, {});
  meanwhile();
}

class Inherited : public OnTransport {};
INSTANTIATE_TEST_SUITE_P(All, Inherited, ::testing::ValuesIn(between_processes()),
                         [](const auto& info) { return info.param; });

TEST_P(Inherited, NoDescriptorIsEverOpenToAProgramThatIsStarted) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer opens pipes to look whether memory is there";
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    refuse_inheritable();
    set_up(GetParam(), rank, port, [&] {
      reporter.say("met");
      reporter.await_go();
    });
  });
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "met") << ranks.log_of(rank);
  ranks.go_all();
}

TEST_P(Inherited, AProgramThatIsStartedHasAsManyAsBefore) {
  if (kSlower > 1) GTEST_SKIP() << "a sanitizer opens pipes to look whether memory is there";
  const int port = free_port();
  Processes ranks(2, [&](int rank, const Reporter& reporter) {
    const std::string before = inherited();
    std::atomic<bool> over{false};
    std::thread others([&] {  // while connections come and go
      while (!over)
        if (inherited() != before) reporter.say("more during set-up");
    });
    set_up(GetParam(), rank, port, [&] {
      over = true;
      others.join();
      reporter.say(inherited() == before ? "as many" : "more");
      reporter.await_go();
    });
  });
  for (int rank : {0, 1}) EXPECT_EQ(ranks.line(rank), "as many") << ranks.log_of(rank);
  ranks.go_all();
}

}  // namespace
}  // namespace ringwood

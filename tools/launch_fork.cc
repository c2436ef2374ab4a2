#include "tools/launch_fork.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kOneRequest = std::chrono::seconds(1);  // signals within it are the same one

// One page shared by parent and children: survives the child that wrote it.
struct SharedReport {
  std::atomic<int> claimed;   // 1: a rank writes or has written
  std::atomic<int> complete;  // 1: the text is valid
  char text[2000];
};

class ReportPage {
 public:
  ReportPage() {
    void* page = ::mmap(nullptr, sizeof(SharedReport), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw Error(ErrorCode::system, system_message("mmap"));
    report_ = new (page) SharedReport{};
  }
  ~ReportPage() { ::munmap(report_, sizeof(SharedReport)); }
  ReportPage(const ReportPage&) = delete;
  ReportPage& operator=(const ReportPage&) = delete;

  void write(const std::string& text) {
    if (report_->claimed.exchange(1) != 0) return;
    std::strncpy(report_->text, text.c_str(), sizeof(report_->text) - 1);
    report_->complete.store(1);
  }
  const SharedReport* read() const { return report_->complete.load() ? report_ : nullptr; }

 private:
  SharedReport* report_;
};

// By nohup, or a script that has started this beside itself.
bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// The signals that the parent takes by sigtimedwait instead of a handler.
class WaitedSignals {
 public:
  WaitedSignals() {
    sigemptyset(&set_);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
      if (signal == SIGCHLD || !is_ignored(signal)) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  // What came after the one that was heeded is the same request.
  ~WaitedSignals() {
    while (stopped_ && take(0) != 0) {
    }
    restore();
  }
  WaitedSignals(const WaitedSignals&) = delete;
  WaitedSignals& operator=(const WaitedSignals&) = delete;

  void restore() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // 0 after `left_ms` without one.
  int take(int left_ms) {
    timespec time{left_ms / 1000, (left_ms % 1000) * 1000000L};
    const int signal = sigtimedwait(&set_, nullptr, &time);
    stopped_ |= signal > 0 && signal != SIGCHLD;
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_, before_;
  bool stopped_ = false;
};

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

class ChildProcesses {
 public:
  ChildProcesses(int ranks, bool finishes, WaitedSignals& signals)
      : children_(ranks), finishes_(finishes), signals_(signals) {}
  ~ChildProcesses() { end(); }

  pid_t fork_one(int rank) {
    const pid_t pid = ::fork();
    if (pid < 0)
      throw Error(ErrorCode::system,
                  fmt::format("cannot start rank {}: {}", rank, system_message("fork")));
    if (pid > 0) children_[rank].pid = pid;
    return pid;
  }
  // Until all have ended. Returns the signal that made us stop, or 0.
  int watch() {
    Deadline grace = Deadline::never();
    while (reap() > 0) {
      const int signal = signals_.take(std::min(grace.left_ms(), 1000));
      if (signal != 0 && signal != SIGCHLD && !hand_on(signal)) return signal;
      if (first_failed_ >= 0 && grace.at() == Deadline::never().at())
        grace = Deadline::after(kGrace);
      if (grace.passed()) end();
    }
    return 0;
  }
  // Kills and reaps the children that are left.
  void end() {
    for (Child& child : children_) {
      if (child.pid <= 0 || child.ended) continue;
      ::kill(child.pid, SIGKILL);
      child.killed_by_us = true;
    }
    for (Child& child : children_) {
      while (child.pid > 0 && !child.ended && ::waitpid(child.pid, &child.status, 0) < 0 &&
             errno == EINTR) {
      }
      child.ended = true;
    }
  }

  // Prints why the run failed, if it did, and returns the exit code.
  int verdict(const SharedReport* report) const {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      const Child& child = children_[rank];
      if (child.killed_by_us || !WIFSIGNALED(child.status)) continue;
      const int signal = WTERMSIG(child.status);
      if (asked_by_ == signal) return 128 + signal;  // before it could end by itself
      if (signal == SIGPIPE)
        return 128 + SIGPIPE;  // the reader of our output has gone: nobody to tell
      fmt::print(stderr, "ringwood: rank {} (process {}) was killed by signal {} ({})\n", rank,
                 child.pid, signal, strsignal(signal));
      return 1;
    }
    if (report != nullptr) fmt::print(stderr, "ringwood: {}\n", report->text);
    return first_failed_ < 0 ? 0 : std::max(1, WEXITSTATUS(children_[first_failed_].status));
  }

 private:
  // False where the children are to be killed. A terminal and a launcher may both have sent it.
  bool hand_on(int signal) {
    if (!finishes_) return false;
    if (asked_by_ != 0) return Clock::now() - asked_at_ < kOneRequest;
    asked_by_ = signal;
    asked_at_ = Clock::now();
    for (const Child& child : children_)
      if (!child.ended) ::kill(child.pid, signal);
    return true;
  }

  struct Child {
    pid_t pid = 0;
    int status = 0;
    bool ended = false, killed_by_us = false;
  };

  int reap() {
    int left = 0;
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      if (!child.ended && ::waitpid(child.pid, &child.status, WNOHANG) == child.pid) {
        child.ended = true;
        if (child.status != 0 && first_failed_ < 0) first_failed_ = static_cast<int>(rank);
      }
      left += !child.ended;
    }
    return left;
  }

  std::vector<Child> children_;
  const bool finishes_;
  int asked_by_ = 0;  // the signal that was handed on
  Clock::time_point asked_at_;
  WaitedSignals& signals_;
  int first_failed_ = -1;
};

// noexcept: unwinding into the parent's frames would kill the siblings.
[[noreturn]] void run_child(int rank, pid_t parent,
                            const std::function<int(int, const ErrorReport&)>& body,
                            ReportPage& page) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(1);  // it died before the line above
  ::prctl(PR_SET_NAME, fmt::format("ringwood:{}", rank).c_str());
  const int code = body(rank, [&page](const std::string& text) { page.write(text); });
  std::fflush(nullptr);
  std::_Exit(code);  // the parent's objects are its own to destroy
}

}  // namespace

int fork_ranks(const ForkOptions& options,
               const std::function<int(int, const ErrorReport&)>& body) {
  ReportPage page;
  WaitedSignals signals;
  const std::vector<int> cores = usable_cores();
  const bool one_core_each = options.pin && options.ranks <= static_cast<int>(cores.size());
  const pid_t parent = ::getpid();
  ChildProcesses family(options.ranks, options.finishes, signals);
  std::fflush(nullptr);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (family.fork_one(rank) != 0) continue;
    signals.restore();
    if (one_core_each) pin_to(cores[rank]);
    run_child(rank, parent, body, page);
  }
  const int stopped_by = family.watch();
  family.end();
  if (stopped_by == 0) return family.verdict(page.read());
  return 128 + stopped_by;
}

}  // namespace ringwood::tools

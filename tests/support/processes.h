// Ranks as forked processes that report in lines, so that one of them can be killed, stopped, or
// put into a network of its own. Nothing outlives the object. Fork before there are threads.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/patience.h"

namespace ringwood::testing {

// A process's own end of its pipes: lines to the test, and lines from it.
class Reporter {
 public:
  Reporter(int out, int in) : out_(out), in_(in) {}
  void say(const std::string& line) const {
    std::string text = line + "\n";
    if (write(out_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(98);
  }
  // Waits until the test lets this process go on.
  void await_go() const {
    char go = 0;
    if (read(in_, &go, 1) != 1) _exit(97);
  }

 private:
  int out_, in_;
};

class Processes {
 public:
  using Body = std::function<void(int rank, const Reporter&)>;

  // Each runs `body` and ends; an exception becomes the line "exception: ...". Standard error goes
  // into a file that log_of() reads.
  Processes(int n, const Body& body) {
    for (int rank = 0; rank < n; ++rank) start(rank, body);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() {
    for (One& one : all_) {
      if (one.pid > 0) {
        kill(one.pid, SIGKILL);
        waitpid(one.pid, nullptr, 0);
      }
      close(one.out);
      close(one.in);
      fclose(one.log);
    }
  }

  pid_t pid(int rank) const { return all_[rank].pid; }
  void signal(int rank, int number) const { kill(all_[rank].pid, number); }
  // Returns when no thread of it runs any more.
  void stop(int rank) const {
    kill(all_[rank].pid, SIGSTOP);
    waitpid(all_[rank].pid, nullptr, WUNTRACED);
  }
  void go(int rank) const { EXPECT_EQ(send(all_[rank].in, "g", 1, MSG_NOSIGNAL), 1); }
  void go_all() const {
    for (size_t rank = 0; rank < all_.size(); ++rank) go(static_cast<int>(rank));
  }

  // The next line of a rank; "(ended)" when it has closed its pipe, "(silent)" at the deadline.
  std::string line(int rank, Deadline deadline = patiently()) {
    One& one = all_[rank];
    for (;;) {
      if (size_t end = one.text.find('\n'); end != one.text.npos) {
        std::string line = one.text.substr(0, end);
        one.text.erase(0, end + 1);
        return line;
      }
      pollfd poller{one.out, POLLIN, 0};
      if (poll(&poller, 1, deadline.left_ms()) <= 0) {
        if (deadline.passed()) return "(silent)";
        continue;
      }
      char buffer[4096];
      ssize_t got = read(one.out, buffer, sizeof(buffer));
      if (got <= 0) return "(ended)";
      one.text.append(buffer, static_cast<size_t>(got));
    }
  }

  // What waitpid() says; the process must end by itself.
  int wait(int rank) {
    int status = 0;
    waitpid(all_[rank].pid, &status, 0);
    all_[rank].pid = -1;
    return status;
  }

  std::string log_of(int rank) const {
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    off_t at = 0;
    while ((got = pread(fileno(all_[rank].log), buffer, sizeof(buffer), at)) > 0) {
      text.append(buffer, static_cast<size_t>(got));
      at += got;
    }
    return text;
  }
  // Polls a file: a log has no event to wait for.
  bool log_shows(int rank, const std::string& what, Deadline deadline = patiently()) const {
    while (log_of(rank).find(what) == std::string::npos) {
      if (deadline.passed()) return false;
      poll(nullptr, 0, 5);
    }
    return true;
  }

 private:
  struct One {
    pid_t pid = -1;
    int out = -1, in = -1;
    FILE* log = nullptr;
    std::string text;
  };

  void start(int rank, const Body& body) {
    int out[2], in[2];
    if (pipe(out) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, in) != 0)
      throw std::runtime_error("pipe");
    One one;
    one.log = tmpfile();
    fflush(nullptr);
    one.pid = fork();
    if (one.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (One& other : all_) close(other.out), close(other.in);
      close(out[0]);
      close(in[1]);
      dup2(fileno(one.log), STDERR_FILENO);
      run(rank, Reporter(out[1], in[0]), body);
    }
    close(out[1]);
    close(in[0]);
    one.out = out[0];
    one.in = in[1];
    all_.push_back(std::move(one));
  }

  [[noreturn]] static void run(int rank, const Reporter& reporter, const Body& body) {
    try {
      body(rank, reporter);
    } catch (const std::exception& error) {
      reporter.say(std::string("exception: ") + error.what());
      _exit(1);
    }
    _exit(0);
  }

  std::vector<One> all_;
};

// A path that does not exist; whatever is there at the end is removed.
class TemporaryPath {
 public:
  TemporaryPath() {
    char name[] = "/tmp/ringwood-test-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) throw std::runtime_error("mkstemp");
    close(fd);
    path_ = name;
    unlink(name);
  }
  ~TemporaryPath() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ringwood::testing

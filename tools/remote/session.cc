#include "tools/remote/session.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxErrors = 4096;
constexpr int kNotFound = 127;
constexpr const char* kStay = "stay\n";

struct Pipe {
  OwnedFd from, to;
};

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(ErrorCode::system, system_message("a pipe for ssh"));
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

OwnedFd without_waiting(OwnedFd fd) {
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

}  // namespace

Session::Session(const std::vector<std::string>& words, Deadline deadline, size_t max_output)
    : deadline_(deadline), max_output_(max_output) {
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in.from.get(), STDIN_FILENO);
    ::dup2(out.to.get(), STDOUT_FILENO);
    ::dup2(err.to.get(), STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    // In the words of a shell, as on the host, so that its name is in the reason.
    ::dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], std::strerror(errno));
    ::_exit(kNotFound);
  }
  if (pid_ < 0) throw Error(ErrorCode::system, system_message(words[0].c_str()));
  // A pipe has room for so few bytes, and its other end is still open here.
  [[maybe_unused]] const auto told = ::write(in.to.get(), kStay, std::strlen(kStay));
  in_ = std::move(in.to);
  out_ = without_waiting(std::move(out.from));
  err_ = without_waiting(std::move(err.from));
}

Session::~Session() { kill_and_wait(); }

void Session::add_to(std::vector<pollfd>& waits) const {
  if (out_) waits.push_back({out_.get(), POLLIN, 0});
  if (err_) waits.push_back({err_.get(), POLLIN, 0});
}

bool Session::step() {
  int state = 0;
  const pid_t got = pid_ > 0 ? ::waitpid(pid_, &state, WNOHANG) : -1;
  // All that it wrote is in the pipes when it has ended.
  read_from(out_, output, max_output_ + 1);
  read_from(err_, errors, std::string::npos);
  if (errors.size() > kMaxErrors) errors.erase(0, errors.size() - kMaxErrors);
  too_long_ = output.size() > max_output_;
  if (got == pid_ && got > 0) {
    pid_ = -1;
    code_ = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return true;
  }
  if (!too_long_ && !deadline_.passed()) return false;
  kill_and_wait();
  return true;
}

void Session::read_from(OwnedFd& fd, std::string& text, size_t most) {
  std::array<char, 65536> piece;
  while (fd && text.size() < most) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got > 0)
      text.append(piece.data(), static_cast<size_t>(got));
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
      fd = OwnedFd();
    else if (errno == EAGAIN)
      return;
    if (most == std::string::npos && text.size() > 16 * kMaxErrors) return;
  }
}

void Session::kill_and_wait() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

ChildrenSeen::ChildrenSeen() {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, &before_);
}

ChildrenSeen::~ChildrenSeen() { ::sigaction(SIGCHLD, &before_, nullptr); }

}  // namespace ringwood::tools

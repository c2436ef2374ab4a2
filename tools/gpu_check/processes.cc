#include "tools/gpu_check/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "transports/base/clock.h"
#include "transports/base/error.h"

namespace ringwood::gpu_check {
namespace {

constexpr int kSocketOfChild = 3;

void must(bool ok, const char* call) {
  if (!ok) throw Error(ErrorCode::system, std::string(call) + " failed");
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& arguments) {
  int sockets[2], pipes[2];
  must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0,
       "socketpair");
  socket_ = OwnedFd(sockets[0]);
  const OwnedFd socket_of_child(sockets[1]);
  must(::pipe2(pipes, O_CLOEXEC) == 0, "pipe2");
  output_ = OwnedFd(pipes[0]);
  const OwnedFd output_of_child(pipes[1]);
  std::vector<char*> all = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) all.push_back(const_cast<char*>(argument.c_str()));
  all.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, output_of_child.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, socket_of_child.get(), kSocketOfChild);
  const int failed = ::posix_spawn(&pid_, program.c_str(), &files, nullptr, all.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  must(failed == 0, "posix_spawn");
}

Process::~Process() {
  kill();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void Process::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string Process::line(int seconds) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(seconds));
  for (;;) {
    if (const size_t end = read_.find('\n'); end != read_.npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    pollfd poller{output_.get(), POLLIN, 0};
    if (::poll(&poller, 1, deadline.left_ms()) <= 0) return "";
    char buffer[4096];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got <= 0) return "";
    read_.append(buffer, static_cast<size_t>(got));
  }
}

Folder::Folder() {
  std::string name = std::filesystem::temp_directory_path() / "ringwood-gpu-XXXXXX";
  must(::mkdtemp(name.data()) != nullptr, "mkdtemp");
  path_ = name;
}

Folder::~Folder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace ringwood::gpu_check

#include "tools/ladder/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <thread>

#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

bool of_a_launcher(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"TORCHELASTIC_", "MASTER_", "LOCAL_", "GROUP_",
                                                   "ROLE_"};
  return name == "RANK" || name == "WORLD_SIZE" ||
         std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

void close_both(const std::array<int, 2>& ends) {
  for (const int fd : ends)
    if (fd >= 0) ::close(fd);
}

}  // namespace

std::vector<std::string> environment_of_child(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!of_a_launcher(name) && more.count(std::string(name)) == 0) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

Child::Child(const std::vector<std::string>& words, const std::vector<std::string>& environment,
             bool with_errors) {
  std::array<int, 2> in{-1, -1}, out{-1, -1};
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  // What the child needs is ready before the fork: other threads may hold the heap's lock.
  const std::vector<char*> arguments = pointers(words), variables = pointers(environment);
  if (::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0) pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(with_errors ? out[1] : null, STDERR_FILENO);
    ::execvpe(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  const std::string why = pid_ < 0 ? system_message(words[0].c_str()) : "";
  if (null >= 0) ::close(null);
  if (pid_ < 0) {
    close_both(in);
    close_both(out);
    throw Error(ErrorCode::system, why);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

Child::~Child() {
  ::close(to_);
  ::close(from_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Child::tell(const std::string& line) {
  // Shorter than a pipe: either all of it or an error.
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  const auto done = ::write(to_, line.data(), line.size());
  ::sigaction(SIGPIPE, &before, nullptr);
  return done == static_cast<ssize_t>(line.size());
}

std::optional<std::string> Child::line(Deadline deadline) {
  while (true) {
    if (const size_t end = unread_.find('\n'); end != unread_.npos) {
      const std::string text = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return text;
    }
    if (deadline.passed() || unread_.size() >= kMaxLine) return std::nullopt;
    pollfd waits{from_, POLLIN, 0};
    if (::poll(&waits, 1, std::min(deadline.left_ms(), 100)) <= 0) continue;
    std::array<char, kMaxLine> piece;
    const ssize_t got = ::read(from_, piece.data(), kMaxLine - unread_.size());
    if (got <= 0) return std::nullopt;
    unread_.append(piece.data(), static_cast<size_t>(got));
  }
}

std::optional<int> Child::wait(Deadline deadline) {
  for (int state = 0; pid_ > 0; std::this_thread::sleep_for(kPause)) {
    const pid_t ended = ::waitpid(pid_, &state, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    if (deadline.passed()) return std::nullopt;
  }
  return std::nullopt;
}

std::chrono::milliseconds patience_of_program(const Options& options,
                                              std::chrono::milliseconds most) {
  return std::min(options.timeout * 4 / 5, most);
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace ringwood::tools

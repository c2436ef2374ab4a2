#include "tools/remote/remote_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "transports/base/clock.h"
#include "transports/base/error.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxErrors = 4096, kMaxReason = 240;
constexpr int kNotFound = 127, kCannotRun = 126, kLate = 124, kOfSsh = 255;
constexpr std::chrono::seconds kConnect{10};

std::chrono::seconds connect_limit(const RemoteOptions& options) {
  return std::clamp(std::chrono::ceil<std::chrono::seconds>(options.limit), std::chrono::seconds(1),
                    kConnect);
}

std::string too_late(const RemoteOptions& options) {
  return fmt::format("no answer within {:g} s", seconds_in(options.limit));
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The last line that says something, without control characters.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == text.npos) return "";
  const size_t start = text.rfind('\n', end);
  std::string line = text.substr(start == text.npos ? 0 : start + 1, kMaxReason);
  line.resize(std::min(line.size(), end - (start == text.npos ? 0 : start + 1) + 1));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return line;
}

// One ssh; killed and waited for by the destructor.
class Session final {
 public:
  Session(const std::vector<std::string>& words, Deadline deadline) : deadline_(deadline) {
    std::array<int, 2> out{-1, -1}, err{-1, -1};
    if (::pipe2(out.data(), O_CLOEXEC) == 0) {
      out_ = OwnedFd(out[0]);
      to_out_ = OwnedFd(out[1]);
    }
    if (::pipe2(err.data(), O_CLOEXEC) == 0) {
      err_ = OwnedFd(err[0]);
      to_err_ = OwnedFd(err[1]);
    }
    const OwnedFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (to_out_ && to_err_ && null) pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(null.get(), STDIN_FILENO);
      ::dup2(to_out_.get(), STDOUT_FILENO);
      ::dup2(to_err_.get(), STDERR_FILENO);
      ::execvp(arguments[0], arguments.data());
      ::_exit(kNotFound);
    }
    if (pid_ < 0) throw Error(ErrorCode::system, system_message(words[0].c_str()));
    to_out_ = OwnedFd();
    to_err_ = OwnedFd();
  }
  ~Session() { end(Deadline::after(std::chrono::seconds(0))); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Deadline& deadline() const { return deadline_; }
  bool reads() const { return out_ || err_; }
  void add_to(std::vector<pollfd>& waits) const {
    if (out_) waits.push_back({out_.get(), POLLIN, 0});
    if (err_) waits.push_back({err_.get(), POLLIN, 0});
  }
  void read_ready(int fd, size_t max_output) {
    if (out_ && fd == out_.get()) read_from(out_, output, max_output);
    if (err_ && fd == err_.get()) read_from(err_, errors, max_output);
    if (errors.size() > kMaxErrors) errors.erase(0, errors.size() - kMaxErrors);
  }
  // The exit code, 128 and the signal. It has closed its pipes, and may live on until the deadline.
  int end(const Deadline& deadline) {
    int state = 0;
    bool killed = false;
    while (pid_ > 0) {
      const pid_t got = ::waitpid(pid_, &state, killed ? 0 : WNOHANG);
      if (got == pid_ || (got < 0 && errno != EINTR)) pid_ = -1;
      if (got != 0) continue;
      killed = deadline.passed();
      if (killed)
        ::kill(pid_, SIGKILL);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  }

  std::string output, errors;
  bool too_long = false;

 private:
  void read_from(OwnedFd& fd, std::string& text, size_t max_output) {
    std::array<char, 65536> piece;
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      fd = OwnedFd();
      return;
    }
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > max_output) {
      too_long = true;
      out_ = OwnedFd();
      err_ = OwnedFd();
      ::kill(pid_, SIGKILL);
    }
  }

  const Deadline deadline_;
  pid_t pid_ = -1;
  OwnedFd out_, err_, to_out_, to_err_;
};

std::vector<std::string> words_of_ssh(const RemoteCommand& command, const RemoteOptions& options) {
  std::vector<std::string> words = options.ssh;
  words.insert(words.end(),
               {"-n", "-o", "BatchMode=yes", "-o",
                fmt::format("ConnectTimeout={}", connect_limit(options).count()), command.host});
  // So that it ends there too, whatever becomes of this process.
  std::string line = fmt::format("timeout -k 2 {:.3f}", seconds_in(options.limit));
  for (const std::string& word : command.words) line += ' ' + quoted(word);
  words.push_back(line);
  return words;
}

std::string reason_of(int code, const std::string& said) {
  if (code == kNotFound || code == kCannotRun)
    return said.empty() ? "the command cannot be run" : "the command cannot be run: " + said;
  if (code == kOfSsh) return said.empty() ? "ssh has failed" : said;
  return fmt::format("the command has ended with {}{}{}", code, said.empty() ? "" : ": ", said);
}

class Run final {
 public:
  Run(const std::vector<RemoteCommand>& commands, const RemoteOptions& options)
      : commands_(commands),
        options_(options),
        answers(commands.size()),
        sessions_(commands.size()) {}

  void start_some() {
    for (; running_ < options_.at_once && next_ < commands_.size(); ++next_, ++running_)
      sessions_[next_] =
          std::make_unique<Session>(words_of_ssh(commands_[next_], options_),
                                    Deadline::after(options_.limit + connect_limit(options_)));
  }
  bool runs() const { return running_ > 0; }

  // Waits for one of them; ends those that have said all, or are late. How many ended.
  size_t turn() {
    std::vector<pollfd> waits;
    std::vector<Session*> owners;
    int left_ms = 1000;
    for (size_t i = 0; i < next_; ++i) {
      if (!sessions_[i]) continue;
      sessions_[i]->add_to(waits);
      owners.resize(waits.size(), sessions_[i].get());
      left_ms = std::min(left_ms, std::max(0, sessions_[i]->deadline().left_ms()));
    }
    if (::poll(waits.data(), waits.size(), left_ms) > 0)
      for (size_t i = 0; i < waits.size(); ++i)
        if (waits[i].revents != 0) owners[i]->read_ready(waits[i].fd, options_.max_output);
    size_t ended = 0;
    for (size_t i = 0; i < next_; ++i)
      if (sessions_[i] && (!sessions_[i]->reads() || sessions_[i]->deadline().passed())) {
        finish(i);
        ++ended;
      }
    running_ -= ended;
    return ended;
  }

 private:
  void finish(size_t i) {
    Session& session = *sessions_[i];
    RemoteAnswer& answer = answers[i];
    const bool late = session.reads();
    const int code =
        session.end(late ? Deadline::after(std::chrono::seconds(0)) : session.deadline());
    answer.ended_s = now_s();
    answer.output = std::move(session.output);
    answer.said = last_line(session.errors);
    if (!late) answer.exit_code = code;
    if (late || code == kLate)
      answer.failure = too_late(options_);
    else if (session.too_long)
      answer.failure = fmt::format("it said more than {} MiB", options_.max_output >> 20);
    else if (code != 0)
      answer.failure = reason_of(code, answer.said);
    sessions_[i].reset();
  }

  const std::vector<RemoteCommand>& commands_;
  const RemoteOptions& options_;

 public:
  std::vector<RemoteAnswer> answers;

 private:
  std::vector<std::unique_ptr<Session>> sessions_;
  size_t next_ = 0, running_ = 0;
};

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<RemoteAnswer> run_remotely(const std::vector<RemoteCommand>& commands,
                                       const RemoteOptions& options,
                                       const std::function<void(size_t ended)>& progress) {
  Run run(commands, options);
  size_t ended = 0;
  for (run.start_some(); run.runs(); run.start_some()) {
    const size_t more = run.turn();
    ended += more;
    if (more > 0 && progress) progress(ended);
  }
  return std::move(run.answers);
}

}  // namespace ringwood::tools

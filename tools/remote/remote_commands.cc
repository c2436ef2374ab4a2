#include "tools/remote/remote_commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>

#include "tools/remote/session.h"
#include "transports/base/bytes.h"
#include "transports/base/clock.h"
#include "transports/base/descriptors.h"
#include "transports/base/error.h"

namespace ringwood::tools {
namespace {

constexpr size_t kMaxReason = 240;
constexpr int kNotFound = 127, kCannotRun = 126, kLate = 124, kOfSsh = 255;
constexpr std::chrono::seconds kConnect{10};
constexpr int kLookMs = 50;  // between two looks at which children have ended
constexpr std::string_view kStay = "stay\n";

std::chrono::seconds connect_limit(const RemoteOptions& options) {
  return std::clamp(std::chrono::ceil<std::chrono::seconds>(options.limit), std::chrono::seconds(1),
                    kConnect);
}

// The last line that says something.
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == text.npos) return "";
  const size_t before = text.rfind('\n', end);
  const size_t start = before == text.npos ? 0 : before + 1;
  return printable(text.substr(start, std::min(end + 1 - start, kMaxReason)));
}

std::vector<std::string> words_of_ssh(const RemoteCommand& command, const RemoteOptions& options) {
  std::vector<std::string> words = options.ssh;
  words.insert(words.end(),
               {"-o", "BatchMode=yes", "-o",
                fmt::format("ConnectTimeout={}", connect_limit(options).count()), command.host});
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
      : answers(commands.size()),
        commands_(commands),
        options_(options),
        sessions_(commands.size()) {}

  // As many as may run. What cannot be started waits for one that ends; without one, it has failed.
  void start_some() {
    while (running_ < options_.at_once && next_ < commands_.size()) {
      try {
        sessions_[next_] = std::make_unique<Session>(
            words_of_ssh(commands_[next_], options_),
            Deadline::after(options_.limit + connect_limit(options_)), options_.max_output);
        ++running_;
      } catch (const Error& error) {
        if (running_ > 0) return;
        answers[next_].failure = error.cause;
      }
      ++next_;
    }
  }
  bool runs() const { return running_ > 0; }

  // Waits for some of them. How many ended.
  size_t turn() {
    std::vector<pollfd> waits;
    for (const auto& session : sessions_)
      if (session) session->add_to(waits);
    ::poll(waits.data(), waits.size(), kLookMs);
    size_t ended = 0;
    for (size_t i = 0; i < next_; ++i) {
      if (!sessions_[i] || !sessions_[i]->step()) continue;
      finish(i);
      ++ended;
      if (i == 0 && options_.after_first)
        for (const auto& other : sessions_)
          if (other) other->hurry(*options_.after_first);
    }
    running_ -= ended;
    return ended;
  }

  std::vector<RemoteAnswer> answers;

 private:
  void finish(size_t i) {
    Session& session = *sessions_[i];
    RemoteAnswer& answer = answers[i];
    answer.ended_s = unix_time_s();
    answer.output = std::move(session.output);
    answer.said = last_line(session.errors);
    answer.exit_code = session.code();
    if (session.too_long())
      answer.failure = fmt::format("it said more than {} MiB", options_.max_output >> 20);
    else if (!answer.exit_code || *answer.exit_code == kLate)
      answer.failure = fmt::format("no answer within {:g} s", seconds_in(options_.limit));
    else if (*answer.exit_code != 0)
      answer.failure = reason_of(*answer.exit_code, answer.said);
    sessions_[i].reset();
  }

  const std::vector<RemoteCommand>& commands_;
  const RemoteOptions& options_;
  std::vector<std::unique_ptr<Session>> sessions_;
  size_t next_ = 0, running_ = 0;
};

}  // namespace

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<RemoteAnswer> run_remotely(const std::vector<RemoteCommand>& commands,
                                       const RemoteOptions& options,
                                       const std::function<void(size_t ended)>& progress) {
  const ChildrenSeen seen;
  try {
    make_room_for_descriptors(3 * std::min(options.at_once, commands.size()), "ssh");
  } catch (const Error&) {
    // Then fewer run at once.
  }
  Run run(commands, options);
  size_t ended = 0;
  for (run.start_some(); run.runs(); run.start_some()) {
    const size_t more = run.turn();
    ended += more;
    if (more > 0 && progress) progress(ended);
  }
  return std::move(run.answers);
}

void end_with_caller() {
  std::thread([] {
    std::string told;
    char c = 0;
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
      got = ::read(STDIN_FILENO, &c, 1);
      if (got > 0 && told.size() < kStay.size()) told += c;
    }
    if (told == kStay) ::kill(::getpid(), SIGTERM);
  }).detach();
}

}  // namespace ringwood::tools

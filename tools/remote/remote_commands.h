// Commands on other hosts, by ssh: many at once, each with a deadline.
//
// Each is a child of this process, ssh HOST 'words', which dies with it. ssh must not ask
// (BatchMode), so hosts and keys are known before. The command's standard input begins with "stay"
// in a line, and ends when this process does (end_with_caller()); beside, it runs under timeout(1)
// there. What hosts say is untrusted: its size is bounded, one that says nothing is given up, and
// none delays another. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ringwood::tools {

struct RemoteCommand {
  std::string host;                // host_list.h
  std::vector<std::string> words;  // any bytes but 0: they are quoted for the shell there
};

struct RemoteAnswer {
  std::string output;            // standard output
  double ended_s = 0;            // unix_time_s() when it had ended here
  std::string failure;           // why it failed, in a sentence, or "" for one that ended with 0
  std::string said;              // the last line of standard error
  std::optional<int> exit_code;  // nullopt: it was given up, or never ran
};

struct RemoteOptions {
  std::vector<std::string> ssh = {"ssh"};  // and options of it
  std::chrono::milliseconds limit{60000};  // of each command
  size_t at_once = 64;                     // fewer where descriptors are short
  size_t max_output = size_t{16} << 20;    // bytes of one command
  // When the first command has ended, so long is left to the others.
  std::optional<std::chrono::milliseconds> after_first;
};

// In the order of the commands. `progress` is called whenever some have ended, with how many have.
std::vector<RemoteAnswer> run_remotely(const std::vector<RemoteCommand>& commands,
                                       const RemoteOptions& options,
                                       const std::function<void(size_t ended)>& progress);

// On the host: ends this process by SIGTERM when the one that has started it so is gone. Nothing
// for one that was started otherwise. Starts a thread.
void end_with_caller();

// Seconds since 1970, by this host's clock, which may be set meanwhile.
double unix_time_s();

// For a POSIX shell: 'it'\''s'.
std::string quoted(const std::string& word);

}  // namespace ringwood::tools

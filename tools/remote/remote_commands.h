// Commands on other hosts, by ssh: many at once, each with a deadline.
//
// Each is a child of this process, ssh HOST 'words', which dies with it. ssh must not ask
// (BatchMode), so hosts and keys are known before. The command on the host runs under timeout(1),
// so that it ends even if this process is killed. What hosts say is untrusted: its size is bounded,
// and one that says nothing is given up. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ringwood::tools {

struct RemoteCommand {
  std::string host;                // host_list.h
  std::vector<std::string> words;  // any bytes but 0: they are quoted for the shell there
};

struct RemoteAnswer {
  std::string output;   // standard output
  double ended_s = 0;   // since 1970, when the output had ended here
  std::string failure;  // why there is none, or "" for a command that ended with 0
  std::string said;     // the last line of standard error
  int exit_code = -1;   // -1: it was given up
};

struct RemoteOptions {
  std::vector<std::string> ssh = {"ssh"};  // and options of it
  std::chrono::milliseconds limit{60000};  // of each command
  size_t at_once = 64;
  size_t max_output = size_t{256} << 20;  // bytes of one command
};

// In the order of the commands. `progress` is called whenever one has ended, with how many have.
// Throws Error(system) where no process can be started.
std::vector<RemoteAnswer> run_remotely(const std::vector<RemoteCommand>& commands,
                                       const RemoteOptions& options,
                                       const std::function<void(size_t ended)>& progress);

// For a POSIX shell: 'it'\''s'.
std::string quoted(const std::string& word);

}  // namespace ringwood::tools

// One ssh of remote_commands.h: a child process whose pipes are read as it writes.
//
// Nothing here blocks, but for the moment in which a killed child ends. The child has ended when
// the process has: what else holds its pipes is not waited for. One thread.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/owned_fd.h"

namespace ringwood::tools {

class Session final {
 public:
  // Three descriptors. Throws Error(system), naming words[0].
  Session(const std::vector<std::string>& words, Deadline deadline, size_t max_output);
  // Kills the child.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Deadline& deadline() const { return deadline_; }
  // Or earlier.
  void hurry(std::chrono::milliseconds left) { deadline_ = deadline_.within(left); }
  void add_to(std::vector<pollfd>& waits) const;
  // Reads what is there. True: it has ended, or was ended because it is late or says too much.
  bool step();

  // Valid when it has ended. The exit code, 128 and the signal; nullopt: it was late.
  std::optional<int> code() const { return code_; }
  bool too_long() const { return too_long_; }

  std::string output, errors;  // standard output; the end of standard error

 private:
  void read_from(OwnedFd& fd, std::string& text, size_t most);
  void kill_and_wait();

  Deadline deadline_;
  const size_t max_output_;
  pid_t pid_ = -1;
  std::optional<int> code_;
  bool too_long_ = false;
  OwnedFd in_, out_, err_;  // in_: what tells the host that this process lives
};

// A child's end is seen only if SIGCHLD is not ignored, which is inherited.
class ChildrenSeen final {
 public:
  ChildrenSeen();
  ~ChildrenSeen();
  ChildrenSeen(const ChildrenSeen&) = delete;
  ChildrenSeen& operator=(const ChildrenSeen&) = delete;

 private:
  struct sigaction before_;
};

}  // namespace ringwood::tools

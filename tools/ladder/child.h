// Another program, as a child process that ends with this one: what it prints is read line by line.
//
// It is untrusted only in so far that it may end, hang, or print without end: every wait has a
// deadline, and a line at most kMaxLine bytes. One thread; destroyed by it, which kills the child.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transports/base/clock.h"
#include "transports/base/options.h"

namespace ringwood::tools {

// Of this process, as "NAME=value", without what tells it its place in a launcher's job: a program
// that makes a group of its own would join that one (torch does, by TORCHELASTIC_USE_AGENT_STORE).
// `more` replaces what has the same name.
std::vector<std::string> environment_of_child(const std::map<std::string, std::string>& more = {});

class Child final {
 public:
  static constexpr size_t kMaxLine = 4096;

  // `words[0]` is looked for in PATH. Its input is a pipe; of its errors nothing is kept unless
  // `with_errors`: then they are lines as well. Throws Error(system) where no process can be
  // started. A program that is not there ends with 127.
  Child(const std::vector<std::string>& words, const std::vector<std::string>& environment,
        bool with_errors);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // A line shorter than a pipe; false: the child reads no more.
  bool tell(const std::string& line);
  // The next line; nullopt: the child has ended, or it is too late.
  std::optional<std::string> line(Deadline deadline);
  // The exit code, 128 and the signal for one that was killed; nullopt: it still runs.
  std::optional<int> wait(Deadline deadline);

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string unread_;
};

// How long to wait for a program: the other rank, which waits for this one's word in a group, must
// not lose its own patience before.
std::chrono::milliseconds patience_of_program(const Options& options,
                                              std::chrono::milliseconds most);

// A program of that name is in PATH, and may be run.
bool in_path(const std::string& program);

}  // namespace ringwood::tools

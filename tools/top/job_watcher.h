// Finds the running jobs of this user on this host, and asks one of them what its ranks do.
//
// A job is the groups that share processes. Each rank of this host has a Unix socket per group
// (transports/control/status/status_socket.h); one of them is asked for all ranks of its group. If
// rank 0 does not pass on what the others report, the other ranks of this host are asked
// themselves. Nothing here waits for longer than kPatience for a rank, nor for more than two
// seconds and a moment for each of them for all.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/status/rank_report.h"
#include "tools/top/known_names.h"
#include "transports/base/clock.h"
#include "transports/control/status/status_socket.h"

namespace ringwood::tools {

struct RankView {
  int rank = 0;
  RankState state = RankState::silent;
  bool known = false;  // anything is known of it
  double silent_s = 0;
  int pid = 0;
  std::string host;
  std::optional<RankReport> report, before;  // the last, and the one before
};

struct GroupView {
  uint64_t id = 0;
  std::string name;
  bool relayed = true;  // rank 0 answers
  std::vector<RankView> ranks;
};

struct JobView {
  std::string id;
  unsigned user = 0;
  std::vector<int> pids;          // of this host
  std::vector<GroupView> groups;  // the largest first
};

// Which job is meant; empty: the only one.
struct JobChoice {
  std::string job;  // the beginning of its name
  int pid = 0;
};

class JobWatcher final {
 public:
  static constexpr std::chrono::seconds kPatience{1};

  // Waits for the job until `deadline`. Throws Error(invalid_argument) where there are several, or
  // none that is meant, with the reason where a process was named; Error(system) if there is none
  // at all; Error(unsupported) if it is of another version.
  JobWatcher(const JobChoice& choice, Deadline deadline);

  // Nothing: the job has ended. One that does not answer has not.
  std::optional<JobView> look();
  // The sockets of its ranks on this host, as they were at the last look.
  const std::vector<StatusName>& sockets() const { return sockets_; }

 private:
  struct Connection {
    OwnedFd fd;
    bool answers = true;
    Clock::time_point answered = Clock::now();  // or was first asked
  };

  GroupView look_at(const std::vector<StatusName>& names);
  bool ask_all(const StatusName& name, GroupView& group);
  void ask_own(const StatusName& name, GroupView& group);
  std::optional<ReportPage> ask(const StatusName& name, const ReportQuery& query);
  void make_room(size_t size, GroupView& group);
  void add(const ReportPage& page, GroupView& group);

  KnownNames names_;
  std::set<std::pair<unsigned, int>> owners_;  // users and pids
  std::string id_;
  std::vector<StatusName> sockets_;
  Deadline look_until_ = Deadline::after(Duration::zero());
  std::map<std::string, Connection> connections_;
  std::map<std::pair<uint64_t, int>, RankReport> last_, before_;  // by group and rank
};

}  // namespace ringwood::tools

// A look at a job with what has changed since the looks before: what all ways of showing it use.
#pragma once

#include <ctime>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/top/analysis.h"
#include "tools/top/job_watcher.h"

namespace ringwood::tools {

// caught_up: well again after late or behind; recovered: after anything worse.
enum class EventKind {
  told,
  late,
  stopped,
  recovered,
  caught_up,
  lost,
  left,
  behind,
  alarm,
  failed
};

struct JobEvent {
  std::time_t time = 0;
  EventKind kind = EventKind::told;  // told: a warning of the rank's own log
  std::string group;
  int rank = -1;  // -1: all
  int pid = 0;
  std::string host;
  std::string text;
};

struct Sample {
  std::time_t time = 0;
  JobView view;
  std::vector<GroupLines> groups;    // as view.groups
  std::vector<std::string> trouble;  // one sentence each
  std::vector<JobEvent> fresh;       // since the last sample
};

class Sampler final {
 public:
  static constexpr size_t kMaxEvents = 200;

  // As JobWatcher's.
  Sampler(const JobChoice& choice, Deadline deadline) : watcher_(choice, deadline) {}
  // Nothing: the job has ended.
  std::optional<Sample> next();
  const std::deque<JobEvent>& events() const { return events_; }  // the oldest first

 private:
  struct Known {
    Condition condition = Condition::unknown;
    int alarms = 0;  // consecutive samples
    int late = 0;    // likewise
  };
  // The lines of a process' log that are known.
  struct Told {
    int64_t until_ns = 0;  // of its clock
    uint64_t group = 0;    // in which it was last seen
  };

  void judge(GroupLines& group, Sample& sample);
  void judge(RankLine& line, Known& known) const;
  void collect_told(const GroupView& group, Sample& sample);
  void forget_others(const JobView& view);

  JobWatcher watcher_;
  std::map<std::pair<uint64_t, int>, Known> known_;   // by group and rank; -1: the group
  std::map<std::pair<std::string, int>, Told> told_;  // by process
  std::deque<JobEvent> events_;
};

// "rank 2 of world (node-b, pid 4711)".
std::string name_of(const GroupLines& group, const RankLine& rank);

}  // namespace ringwood::tools

// What is going on in a job, from what its ranks report. Pure.
//
// 1. Stopped: a rank that has not answered for kStoppedSeconds. Lost, left: as rank 0 knows it.
// 2. Behind: it has not called an operation for which others have waited kHangSeconds.
// 3. Late: it comes to its operations after the others, time and again. Of the last second, others
//    have waited for calls while it has not, and it was outside its operations (of all groups)
//    while they were not. Both, so that a slow link, which keeps some ranks longer in an operation
//    and so brings them late to the next one, is not mistaken for a late rank.
// 4. Slow: operations take kAlarmRatio of the prediction, from the call of the last rank on. It
//    needs no baseline: the prediction is that of the parameters by which the job was planned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/top/job_watcher.h"

namespace ringwood::tools {

inline constexpr double kStoppedSeconds = 1, kHangSeconds = 1, kAlarmRatio = 2;
// A rank is late if it makes others wait for so long in each operation, and so much of the time.
inline constexpr double kLateSeconds = 200e-6, kLateShare = 0.05;
inline constexpr uint32_t kAlarmOperations = 3;

enum class Condition {
  unknown,    // it does not tell
  computing,  // in no operation
  moving,     // in an operation that all ranks have called
  waiting,    // for others to call
  late,
  behind,
  stopped,
  left,
  lost,
  failed  // the group has ended with an error
};
const char* to_string(Condition condition);

struct PathRate {
  PathOfRank path;
  double bytes_per_s = 0, retransmissions_per_s = 0;
};

struct RankLine {
  int rank = 0, pid = 0;
  std::string host;
  Condition condition = Condition::unknown;
  std::string why;        // a sentence without its end; "" where there is nothing to say
  std::string operation;  // under way, or the last one
  std::string algorithm;
  double progress = -1;  // of its steps; negative: not known
  double operations_per_s = 0, bus_bytes_per_s = 0;
  double inside = 0, waited = 0;  // shares of the last second
  double late_s = 0;              // in each operation, behind the others
  int waits_for = -1;             // now
  double waits_s = 0;             // so far
  double ratio = 0;               // measured by predicted; 0: not known
  double retransmissions_per_s = 0;
  std::vector<PathRate> paths;
};

struct GroupLines {
  uint64_t id = 0;
  std::string name;
  bool relayed = true;
  std::vector<RankLine> ranks;
  double ratio = 0;  // the median of the ranks'
  bool alarm = false;
  std::string alarm_text;
};

GroupLines analyse(const GroupView& group, const JobView& job);

// True for the conditions that somebody has to look at.
bool is_trouble(Condition condition);

}  // namespace ringwood::tools

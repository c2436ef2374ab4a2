// Blame by subtraction: what an operation of a trace took beyond its prediction, and who or what
// took it.
//
// A rank is late by its own doing where it calls after the others, by more than it ended the
// operation before after them: a rank that a slow link has delayed is not late. Where calls have
// short records only (collectives/recorder/recorder.h), the late rank is the one that the others
// waited for. Lateness counts from the call of the middle rank on, of two from the first's.
//
// A message takes its time from when both ends had begun it, and the one before it on the link was
// there. What it took beyond its prediction is blamed on its link where it lies on the critical
// path: from the step that ended last back to whatever each step waited for last. A late rank's
// messages begin late and are not slow, and a slow link's ranks call when they can.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/trace/predicted.h"

namespace ringwood::tools {

struct LateRank {
  int rank = 0;
  double seconds = 0;
};
// A message on the critical path that took longer than predicted.
struct SlowMessage {
  TracedMessage measured;
  double predicted = 0;
  std::string way;  // "rail 1 (mlx5_1/1)"; "" where it is not known
  double excess() const { return measured.end - measured.begin - predicted; }
};

struct Blame {
  int64_t sequence = 0;
  std::string name;               // "all_reduce 4 MiB"
  double measured = 0;            // from the middle rank's call to the last rank's end
  double predicted = 0;           // 0: not known
  std::vector<LateRank> late;     // the latest first
  std::vector<SlowMessage> slow;  // the slowest first; messages are compared with their own
  double lost() const { return measured - predicted; }
};

// Two ranks' link over a run, one way.
struct LinkBlame {
  int from = 0, to = 0;
  std::string way;  // as in SlowMessage
  int messages = 0;
  double bytes = 0, measured = 0, predicted = 0;  // of all messages with a prediction
  double blamed = 0;                              // excess on critical paths
  double steady = 0;                              // of it: without outliers
  double ratio = 1;   // measured to predicted, at most, in the quicker quarter of operations
  bool slow = false;  // stands out among the links of its kind
};
// Ranks leave the set-up of a group at different times: to be late once is no cause.
inline constexpr int kOnce = 1;
struct RankBlame {
  int rank = 0;
  int operations = 0;  // in which it was late
  double blamed = 0;   // seconds, in all
  double steady = 0;   // of them: without outliers
  double middle = 0;   // of them
};

struct RunBlame {
  std::vector<Blame> operations;  // the worst first
  std::vector<RankBlame> ranks;   // late ones: more than once, then once, the worst first
  std::vector<LinkBlame> links;   // slow ones, the worst first
  double usual_ratio = 1;         // of the middle link: messages measured to predicted
  int judged = 0;                 // operations
  // What cost the run most, of its worst rank and its worst link: "late rank", "slow link" or
  // "nothing".
  std::string verdict() const;
};

RunBlame blame(const TracedGroup& group, Predictions& predictions);

// The messages of an operation, measured.
std::vector<TracedMessage> messages_of(const TracedOperation& operation);

// One sentence for an operation, and several for a run.
std::string sentence_of(const Blame& blame);
std::string summary_of(const TracedGroup& group, const RunBlame& run);

}  // namespace ringwood::tools

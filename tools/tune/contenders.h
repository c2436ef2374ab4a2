// Who takes part in a contest: rows of the table that are predicted to be near the best, those that
// a user brings as texts, and the default.
#pragma once

#include <string>
#include <vector>

#include "collectives/tuner/tuning/tuning_file.h"
#include "tools/tune/contest.h"

namespace ringwood::tools {

// The schedules of a text file: "mine.txt", or "broadcast=mine.txt" where several collectives are
// tuned. The name is that of the file. Throws Error(invalid_argument), with the counterexample of
// the proof where they are wrong.
struct OwnText {
  Collective collective;
  TunedSchedules own;
};
OwnText read_own_text(const std::string& word, const std::vector<Collective>& tuned, int root);

struct ContenderLimits {
  double factor = 3;
  int most = 12;
};
// The predicted ones, the best first; `refused` is told who is not measured and why. One of rows
// with equal schedules stands for all.
std::vector<Contender> contenders_for(const Call& call, Collective collective,
                                      const std::vector<int>& hosts,
                                      const std::vector<OwnText>& own,
                                      const ContenderLimits& limits, size_t& predicted);

}  // namespace ringwood::tools

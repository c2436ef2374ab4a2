// Which of several ways to carry out one call is the fastest: measured on the group itself.
//
//   1. Each contender runs on known data, and every element on every rank is compared: one that is
//      wrong is disqualified. One that takes kHopeless times the best is beaten at once. Where the
//      default is wrong, there is nothing to compare with, and the contest ends here.
//   2. Repetitions: all that are left take turns in a shuffled order, so that a slow moment of the
//      machines hits all. After each kStage repetitions the slower half is beaten (successive
//      halving), but never the default; what remains is joined by the best one's neighbours, with
//      half and twice its segments.
//   3. The best one and the default go on until the interval of one clears that of the other by
//      kMargin, or it is plain that none will (medians.h).
//
// All ranks call measure() alike and find the same: times are those of the slowest rank, and every
// decision follows from them and the seed. Times are seconds of one operation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/plan/proved_schedules.h"
#include "collectives/tuner/candidate.h"
#include "collectives/tuner/tuning/medians.h"
#include "tools/perf/perf_operations.h"

namespace ringwood::tools {

inline constexpr double kHopeless = 3, kMargin = 0.02;
inline constexpr int kStage = 3, kMinRepetitions = 5;

enum class Outcome { racing, beaten, wrong };
const char* to_string(Outcome outcome);  // "measured", "beaten", "wrong"

struct Contender {
  std::string algorithm;  // a row, or the name of a schedule
  int segments = 1;
  WireFormat wire = WireFormat::exact;
  double predicted = 0;                        // 0: nothing is predicted
  std::shared_ptr<const ProvedSchedules> own;  // the schedules, or null
  bool is_default = false;
  // Once measured:
  Outcome outcome = Outcome::racing;
  int64_t wrong = 0;  // elements
  std::vector<double> times;
  MeasuredTime time;  // of `times`, if there are any
};
std::string name_of(const Contender& contender);  // "ring", "ring/4", "ring+bf16/4"

struct ContestOptions {
  int max_repetitions = 25;
  double seconds = 10;  // after which no repetition is made beyond kMinRepetitions
  uint64_t seed = 1;
  double tolerance = 0;  // of calls in a wire format
};

class Contest final {
 public:
  // `row`, `call` and `pattern` outlive it. One of the contenders is the default.
  Contest(const OperationRow& row, const Call& call, const Pattern& pattern,
          const ContestOptions& options);
  // `progress` is told what goes on. Collective; throws the group's Error.
  void measure(std::vector<Contender>& contenders,
               const std::function<void(const std::string&)>& progress);

 private:
  Call call_for(const Contender& contender) const;
  void try_out(std::vector<Contender>& all,
               const std::function<void(const std::string&)>& progress);
  void try_out(Contender& contender);
  void repeat(std::vector<Contender>& all);
  void halve(std::vector<Contender>& all);
  void add_neighbours(std::vector<Contender>& all);
  bool undecided(const std::vector<Contender>& all) const;
  void slowest(std::vector<double>& seconds) const;
  double elapsed() const;

  const OperationRow& row_;
  const Call& call_;
  const Pattern& pattern_;
  const ContestOptions options_;
  uint64_t random_;
  double first_best_ = 0;       // the fastest first run
  double begin_ = 0, now_ = 0;  // of rank 0's clock, alike on all ranks
};

}  // namespace ringwood::tools

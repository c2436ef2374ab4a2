// Checks each kind of plan against those of all other ranks (checker/checker.h) before the first
// plan of that kind is used. This is not done when the group is made: choosing plans for arguments
// that may never occur costs ten times as much as all checks of those that do.
//
// A kind is everything that decides how a plan runs, except its size. Thread-safe; two threads may
// check one kind at the same time.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "collectives/checker/checker.h"
#include "collectives/planner/plan_maker.h"

namespace ringwood {

class PlanChecks final {
 public:
  // `mine` was made from the key and this choice. Throws Error(internal) with what is wrong.
  void check_once(PlanMaker& maker, const Plan& mine, const PlanKey& key,
                  const TuningChoice& choice);
  // Kinds that were found correct.
  size_t sound() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, bool> kinds_;  // false: too large to be checked
};

}  // namespace ringwood

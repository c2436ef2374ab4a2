// Checks each kind of plan against those of all other ranks (checker/checker.h) before the first
// plan of that kind is used. This is not done when the group is made: choosing plans for arguments
// that may never occur costs ten times as much as all checks of those that do.
//
// A kind is everything that decides how a plan runs, except its size. Thread safety: guarded by the
// caller's lock.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "collectives/checker/checker.h"
#include "collectives/runtime/plan_maker.h"

namespace ringwood {

class PlanChecks final {
 public:
  // `mine` was made from the key. Throws Error(internal) with what is wrong.
  void check_once(PlanMaker& maker, const Plan& mine, const PlanKey& key);
  // Kinds that were found correct.
  size_t sound() const;

 private:
  std::map<std::string, bool> kinds_;  // false: too large to be checked
};

}  // namespace ringwood

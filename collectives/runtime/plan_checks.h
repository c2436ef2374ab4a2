// Which kinds of plans have been checked against those of all other ranks (checker/checker.h), each
// before the first of it is used. Not when the group is made: the choices for a set of arguments
// that may never come cost ten times as much as all checks of those that do.
//
// A kind is all that decides how a plan runs, without its size. Thread safety: the caller's lock.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "collectives/checker/checker.h"
#include "collectives/runtime/plan_maker.h"

namespace ringwood {

class PlanChecks final {
 public:
  // `mine`: made of the key. Throws Error(internal) with what is wrong.
  void check_once(PlanMaker& maker, const Plan& mine, const PlanKey& key);
  // Kinds that were found sound.
  size_t sound() const;

 private:
  std::map<std::string, bool> kinds_;  // false: too large to be checked
};

}  // namespace ringwood

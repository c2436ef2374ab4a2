// Returns the plan of a call. If it is not in the cache: asks the tuner for an algorithm, makes the
// plan, and checks it. Thread-safe.
//
//   get(key) --> plan_cache.h   found: nothing is chosen, made or allocated
//            --> tuner.h        the algorithm and its segments
//            --> plan_maker.h   the schedule, bound to sizes, and the passes
//            --> plan_checks.h  each kind once, against the plans of all other ranks
//
// Invariants
// 1. A plan is made outside the lock. If several threads need the same key, one makes the plan and
//    the others wait for it. Other keys never wait.
// 2. The network's parameters may change, from one operation on (epochs/epochs.h). Every call is
//    then chosen again. If the choice is the same, the plan is reused with the new epoch number.
//
// Other caches: the last four synchronous calls (calls/recent_calls.h), and the tuner's of choices
// by class of sizes (tuner/model_tuner.h).
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "collectives/plan/plan.h"
#include "collectives/planner/plan_cache.h"
#include "collectives/planner/plan_checks.h"
#include "collectives/planner/plan_maker.h"
#include "collectives/planner/planner.h"
#include "collectives/tuner/tuner.h"

namespace ringwood {

class GroupPlanner final : public Planner {
 public:
  // `slots`: true if every rank has eager slots to every other.
  GroupPlanner(int rank, int n, std::shared_ptr<const Tuner> tuner, bool slots = false);

  // Throws Error(invalid_argument) for an unusable algorithm or schedules of another group.
  std::shared_ptr<const Plan> get(const PlanKey& key);
  // What would be chosen now.
  TuningChoice choose(const CollectiveArgs& args) const;
  std::vector<Candidate> explain(const CollectiveArgs& args) const;

  // The number of kinds of plans that passed the check (plan_checks.h).
  size_t checked() const { return checks_.sound(); }

  void prepare(uint32_t epoch, const std::string& parameters) override;
  void abandon(uint32_t epoch) override;
  std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) override;
  TunerInUse in_use() const override;

 private:
  // A plan that is being made; other threads wait on `plan`.
  struct Making {
    uint32_t epoch = 0;
    std::shared_future<std::shared_ptr<const Plan>> plan;
  };

  std::shared_ptr<PlanMaker> maker() const;
  void enter(uint32_t epoch);
  // Makes the plan, or waits for the thread that does. Releases the lock meanwhile.
  std::shared_ptr<const Plan> make_once(std::unique_lock<std::mutex>& lock, const PlanKey& key,
                                        const Plan* known);
  // `known`: the plan of an earlier epoch, or null.
  std::shared_ptr<const Plan> make(PlanMaker& maker, const PlanKey& key, const Plan* known);
  // In the log: the algorithm of a plan and who chose it, once for each class of sizes.
  void tell_choice(const Plan& plan, const PlanKey& key, const TuningChoice& choice);

  const int rank_, n_;
  const bool slots_;
  PlanChecks checks_;
  mutable std::mutex mutex_;                             // guards what follows
  std::shared_ptr<PlanMaker> maker_;                     // of the present epoch
  std::map<uint32_t, std::shared_ptr<PlanMaker>> next_;  // of later ones
  PlanCache plans_;
  std::unordered_map<PlanKey, Making, PlanKeyHash> making_;
  std::set<std::tuple<Collective, size_t, DataType, std::string, int>> told_;
};

}  // namespace ringwood

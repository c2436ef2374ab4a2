// Plans by args: a repeated call costs one look-up. Thread safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/choice/choose.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/runtime/plan_checks.h"
#include "collectives/runtime/plan_maker.h"

namespace ringwood {

class PlanCache final {
 public:
  // `machine`: the group's, equal on all ranks, with the host of each. `slots`: every rank has
  // eager slots to every other.
  PlanCache(int rank, int n, const MachineModel& machine, const Options& options,
            bool slots = false);
  // A negative tolerance: the options'. `private_source`: peers could read this rank's scratch in
  // place, but not what it sends. Throws Error(invalid_argument) for an unusable algorithm.
  // `own`: what runs instead of an algorithm.
  std::shared_ptr<const Plan> get(const CollectiveArgs& args, const std::string& algorithm,
                                  int segments, bool private_source, double tolerance = -1,
                                  const std::shared_ptr<const ProvedSchedules>& own = nullptr);
  TuningChoice tuning(const CollectiveArgs& args, const std::string& algorithm, int segments,
                      double tolerance = -1) const;
  std::vector<Candidate> explain(const CollectiveArgs& args) const;
  // Kinds of plans that have been checked and found sound (checker/checker.h).
  size_t checked() const;
  // Whether a call in a group whose packed buffer has so many bytes is carried out together with
  // others.
  bool packs(size_t bytes) const { return bytes <= limits().packed; }
  // Whether so many bytes of a private source are copied once for all peers.
  bool publishes(size_t bytes) const {
    return bytes >= limits().published_from && bytes <= limits().published_up_to;
  }

 private:
  struct Hash {
    size_t operator()(const PlanKey& key) const;
  };
  const ProtocolLimits& limits() const { return maker_.machine().limits; }

  mutable std::mutex mutex_;
  PlanMaker maker_;
  PlanChecks checks_;
  using Plans = std::unordered_map<PlanKey, std::shared_ptr<const Plan>, Hash>;
  // Uneven ones apart: those of a mixture of experts change with every call and would drive out
  // the others.
  Plans plans_, uneven_;
};

}  // namespace ringwood

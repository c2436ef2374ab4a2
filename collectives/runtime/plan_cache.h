// Caches plans by their arguments: a repeated call costs one look-up. Thread-safe.
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
  // `machine` is the group's machine model, equal on all ranks, with the host of each. `slots`:
  // every rank has eager slots to every other.
  PlanCache(int rank, int n, const MachineModel& machine, const Options& options,
            bool slots = false);
  // A negative tolerance means that of the options. `private_source`: peers could read this rank's
  // scratch in place, but not the buffer it sends. `own`: the schedules to run instead of an
  // algorithm. Throws Error(invalid_argument) for an unusable algorithm.
  std::shared_ptr<const Plan> get(const CollectiveArgs& args, const std::string& algorithm,
                                  int segments, bool private_source, double tolerance = -1,
                                  const std::shared_ptr<const ProvedSchedules>& own = nullptr);
  TuningChoice tuning(const CollectiveArgs& args, const std::string& algorithm, int segments,
                      double tolerance = -1) const;
  std::vector<Candidate> explain(const CollectiveArgs& args) const;
  // Kinds of plans that were checked and found correct (checker/checker.h).
  size_t checked() const;
  // Whether a call in a group whose packed buffer has this many bytes is carried out together
  // with others.
  bool packs(size_t bytes) const { return bytes <= limits().packed; }
  // Whether this many bytes of a private source are copied once for all peers.
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
  // Plans of uneven blocks are kept apart: those of a mixture of experts change with every call and
  // would evict the others.
  Plans plans_, uneven_;
};

}  // namespace ringwood

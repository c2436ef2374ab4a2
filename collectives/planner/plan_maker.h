// Makes the plan that carries out a call: the choice of an algorithm or the user's own schedules,
// the protocol, how sums are rounded and scaled, and then the passes.
//
// It can make the plans of all ranks, because each rank checks its own against those of the others
// (plan_checks.h). One for each epoch. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "collectives/algorithms/hosts.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/tuner/tuner.h"

namespace ringwood {

class PlanMaker final {
 public:
  // `slots`: every rank has eager slots to every other. `epoch`: of the plans.
  PlanMaker(int rank, int n, std::shared_ptr<const Tuner> tuner, bool slots, uint32_t epoch = 0);

  // What the tuner is asked for a call. `tolerance`: as in PlanRequest.
  TuningQuery query(const CollectiveArgs& args, double tolerance = -1) const;
  // The call's own schedules, or what the tuner chooses. Throws Error(invalid_argument) for an
  // unusable algorithm or schedules of another group.
  TuningChoice choose(const PlanKey& key) const;
  // `choice`: of this key.
  std::shared_ptr<Plan> make(const PlanKey& key, const TuningChoice& choice, int rank);
  // The schedules of all ranks from which this rank's plan and theirs were made.
  std::vector<Schedule> schedules(const Plan& mine, const TuningChoice& choice);

  int rank() const { return rank_; }
  int size() const { return n_; }
  uint32_t epoch() const { return epoch_; }
  const std::shared_ptr<const Tuner>& tuner() const { return tuner_; }
  const GroupFacts& group() const { return group_; }

 private:
  // Where schedules come from.
  struct Source {
    const AlgorithmRow* row = nullptr;  // null: the user's own schedules
    const ProvedSchedules* own = nullptr;
  };

  Source source(const CollectiveArgs& args, const TuningChoice& choice) const;
  Schedule schedule(const Source& source, int rank, int root) const;
  Protocol protocol(const Source& source, const CollectiveArgs& args, int segments) const;
  Wire wire_of(WireFormat format) const { return {format, group_.hosts, apart_, group_size_}; }
  void check_own(const PlanKey& key) const;
  std::shared_ptr<Plan> make_exact(const Source& source, const PlanKey& key,
                                   const TuningChoice& choice, int rank);
  std::shared_ptr<Plan> make_encoded(const Source& source, const PlanKey& key,
                                     const TuningChoice& choice, int rank);
  // The sums of all ranks' schedules as they are bound, or null where they do not matter. Cached by
  // row, because they do not depend on sizes.
  std::shared_ptr<const Sums> sums(const Source& source, const CollectiveArgs& args,
                                   WireFormat wire);
  std::shared_ptr<const Sums> trace(const Source& source, const CollectiveArgs& args,
                                    WireFormat wire) const;

  const int rank_, n_;
  const std::shared_ptr<const Tuner> tuner_;
  const GroupFacts& group_;  // of the tuner
  const bool apart_;         // every message goes through sockets
  const GroupSize group_size_;
  const bool slots_;
  const uint32_t epoch_;
  const Hosts hosts_, nodes_;
  std::mutex sums_mutex_;
  std::map<std::tuple<const AlgorithmRow*, int, WireFormat>, std::shared_ptr<const Sums>> sums_;
};

}  // namespace ringwood

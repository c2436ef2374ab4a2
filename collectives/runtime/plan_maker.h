// Makes the plan that carries out a call: the choice of an algorithm or the user's own schedules,
// the protocol, how sums are rounded and scaled, and then the passes.
//
// It can make the plans of all ranks, because each rank checks its own against those of the others
// (plan_checks.h). Thread safety: tuning() and explain() from any thread; the rest under the
// caller's lock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/algorithms/hosts.h"
#include "collectives/choice/choose.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/proved_schedules.h"

namespace ringwood {

// What a plan depends on, besides the group.
struct PlanKey {
  CollectiveArgs args;
  PlanRequest request;
  bool operator==(const PlanKey&) const = default;
};

class PlanMaker final {
 public:
  // `machine` is the group's machine model, equal on all ranks, with the host of each. `slots`:
  // every rank has eager slots to every other. `epoch`: of the plans. `tuning`: the group's, or
  // null.
  PlanMaker(int rank, int n, const MachineModel& machine, const Options& options, bool slots,
            uint32_t epoch = 0, std::shared_ptr<const TuningFile> tuning = nullptr);

  TuningChoice tuning(const CollectiveArgs& args, const std::string& algorithm, int segments,
                      double tolerance) const;
  std::vector<Candidate> explain(const CollectiveArgs& args) const;

  // Throws Error(invalid_argument) for an unusable algorithm.
  std::shared_ptr<Plan> make(const PlanKey& key, int rank);
  // The schedules of all ranks from which this rank's plan and theirs were made.
  std::vector<Schedule> schedules(const Plan& mine, const PlanKey& key);

  int rank() const { return rank_; }
  int size() const { return n_; }
  uint32_t epoch() const { return epoch_; }
  const MachineModel& machine() const { return chooser_.machine(); }

 private:
  // Where schedules come from.
  struct Source {
    const AlgorithmRow* row = nullptr;  // null: the user's own schedules
    const ProvedSchedules* own = nullptr;
  };

  TuningQuery query(const CollectiveArgs& args, double tolerance) const;
  Schedule schedule(const Source& source, int rank, int root) const;
  Protocol protocol(const Source& source, const CollectiveArgs& args, int segments) const;
  std::shared_ptr<Plan> make_chosen(const PlanKey& key, int rank);
  std::shared_ptr<Plan> make_own(const PlanKey& key, int rank);
  std::shared_ptr<Plan> make_exact(const Source& source, const PlanKey& key,
                                   const TuningChoice& tuning, int rank);
  // The sums of all ranks' schedules as they are bound, or null where they do not matter. Cached by
  // row, because they do not depend on sizes.
  std::shared_ptr<const Sums> sums(const Source& source, const CollectiveArgs& args,
                                   WireFormat wire);
  std::shared_ptr<const Sums> trace(const Source& source, const CollectiveArgs& args,
                                    WireFormat wire) const;

  const int rank_, n_;
  const double tolerance_;
  const bool apart_;  // every message goes through sockets
  const bool slots_;
  const uint32_t epoch_;
  mutable Chooser chooser_;
  const Hosts hosts_, nodes_;
  std::map<std::tuple<const AlgorithmRow*, int, WireFormat>, std::shared_ptr<const Sums>> sums_;
};

}  // namespace ringwood

// Caches plans by their arguments: a repeated call costs one look-up. Thread-safe.
//
// The plans that are kept have a limited number of bytes; those that were not used for the longest
// time make room for others.
//
// The network's parameters may change, from one operation on (epochs/epochs.h). Then all is chosen
// anew; a plan whose choice remains is kept.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "collectives/choice/choose.h"
#include "collectives/epochs/planner.h"
#include "collectives/epochs/row_changes.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/proved_schedules.h"
#include "collectives/runtime/plan_checks.h"
#include "collectives/runtime/plan_maker.h"
#include "transports/control/control.h"

namespace ringwood {

// The memory of a plan, about.
size_t bytes_of(const Plan& plan);

class PlanCache final : public Planner {
 public:
  // `machine` is the group's machine model, equal on all ranks, with the host of each. `slots`:
  // every rank has eager slots to every other.
  // `tuning`: of the group, or null; taken as long as the network is as it was at first.
  PlanCache(int rank, int n, const MachineModel& machine, const Options& options,
            bool slots = false, std::shared_ptr<const TuningFile> tuning = nullptr);
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
  const MachineModel& machine() const { return machine_; }
  // Bytes and number of the plans that are kept.
  size_t kept_bytes() const;
  size_t kept() const;
  // Whether a call in a group whose packed buffer has this many bytes is carried out together
  // with others.
  bool packs(size_t bytes) const { return bytes <= machine_.limits.packed; }
  // Whether this many bytes of a private source are copied once for all peers.
  bool publishes(size_t bytes) const {
    return bytes >= machine_.limits.published_from && bytes <= machine_.limits.published_up_to;
  }

  // Of the text (machine_model.h) only the network's parameters count: the rest of a group's
  // machine model never changes.
  void prepare(uint32_t epoch, const std::string& parameters) override;
  void abandon(uint32_t epoch) override;
  std::shared_ptr<const Plan> plan_again(const Plan& plan, uint32_t epoch) override;
  Proposal weigh(const NetworkParameters& measured) const override;
  // The network's parameters of `machine` for all ranks, with words on what they change for the
  // chosen plans in this cache. Nothing where they are those of now.
  Proposal proposal(const MachineModel& machine) const;

 private:
  struct Hash {
    size_t operator()(const PlanKey& key) const;
  };
  // Plans by use, the last one used first. At least that one is kept.
  class Kept {
   public:
    Kept(size_t most_bytes, size_t most_plans) : most_bytes_(most_bytes), most_plans_(most_plans) {}
    // Null: it is not kept.
    std::shared_ptr<const Plan> find(const PlanKey& key);
    // Takes the place of the plan with this key, if there is one.
    void add(const PlanKey& key, std::shared_ptr<const Plan> plan);
    template <class Each>
    void for_each(Each each) const {
      for (const Entry& entry : by_use_) each(*entry.key, *entry.plan);
    }
    size_t bytes() const { return bytes_; }
    size_t size() const { return plans_.size(); }

   private:
    struct Entry {
      const PlanKey* key;  // of plans_
      std::shared_ptr<const Plan> plan;
      size_t bytes;
    };
    const size_t most_bytes_, most_plans_;
    size_t bytes_ = 0;
    std::list<Entry> by_use_;
    std::unordered_map<PlanKey, std::list<Entry>::iterator, Hash> plans_;
  };

  std::shared_ptr<PlanMaker> make_maker(const NetworkParameters& network, uint32_t epoch) const;
  std::shared_ptr<PlanMaker> maker() const;
  void enter(uint32_t epoch);
  std::shared_ptr<const Plan> find(const PlanKey& key);
  // `known`: the plan of an earlier epoch, or null.
  std::shared_ptr<const Plan> make(const PlanKey& key, const Plan* known);
  // In the log: the algorithm of a plan and who chose it, once for each class of sizes.
  void tell_choice(const Plan& plan, const PlanKey& key);
  Proposal proposal(const NetworkParameters& network, const std::vector<RowChange>& rows) const;
  std::vector<RowChange> row_changes(const NetworkParameters& network) const;

  const MachineModel machine_;  // of the first epoch
  const Options options_;
  const bool slots_;
  const std::shared_ptr<const TuningFile> tuning_;
  mutable std::mutex mutex_;
  std::shared_ptr<PlanMaker> maker_;                     // of the present epoch
  std::map<uint32_t, std::shared_ptr<PlanMaker>> next_;  // of later ones
  PlanChecks checks_;
  std::set<std::tuple<Collective, size_t, DataType, std::string, int>> told_;
  // Plans of uneven blocks are kept apart: those of a mixture of experts change with every call and
  // would evict the others.
  Kept plans_, uneven_;
};

}  // namespace ringwood

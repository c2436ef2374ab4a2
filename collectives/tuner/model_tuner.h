// The tuner that predicts: choose() (choose.h) for one group, with a cache, after what a tuning
// file has measured.
//
// Thread safety: as Tuner. What was chosen is found under a lock that is held for a look-up only;
// a new choice is computed under another one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/tuner/choice/choose.h"
#include "collectives/tuner/choice/row_profiles.h"
#include "collectives/tuner/machine/machine_model.h"
#include "collectives/tuner/tuner.h"
#include "collectives/tuner/tuning/tuning_file.h"
#include "collectives/tuner/watch/row_changes.h"
#include "transports/base/options.h"

namespace ringwood {

class ModelTuner final : public Tuner {
 public:
  // `file`: null, or of a group with this fingerprint. `first`: the parameters with which the group
  // began; the file is for these.
  ModelTuner(const MachineModel& machine, const Options& options,
             std::shared_ptr<const TuningFile> file = nullptr)
      : ModelTuner(machine, machine.net, options, std::move(file)) {}
  ModelTuner(MachineModel machine, NetworkParameters first, const Options& options,
             std::shared_ptr<const TuningFile> file);
  ~ModelTuner() override;

  // A tuning file's range is taken where neither call nor options name a row or segments, block
  // sizes are alike, and results need not be reproducible.
  TuningChoice choose(const TuningQuery& query, const std::string& algorithm = "",
                      int segments = 0) const override;
  std::vector<Candidate> explain(const TuningQuery& query) const override;
  const GroupFacts& group() const override { return machine_; }
  std::shared_ptr<const Tuner> with(const std::string& parameters) const override;
  Proposal weigh(const NetworkParameters& measured, const std::vector<UsedChoice>& used,
                 const std::atomic<bool>& stop) const override;

  const MachineModel& machine() const { return machine_; }
  // These parameters for all ranks, with words on what they change for what is in use. Nothing
  // where they are those of now.
  Proposal propose(const NetworkParameters& network, const std::vector<UsedChoice>& used) const;

 private:
  using Key = std::tuple<Collective, size_t, DataType, ReduceOp, int, bool, double, std::string,
                         int, const TunedRange*>;

  ModelQuery query_of(const TuningQuery& query) const;
  std::shared_ptr<const ModelTuner> with(const NetworkParameters& network) const;
  Proposal proposal(const NetworkParameters& network, const std::vector<RowChange>& changes) const;
  // What becomes of each class of calls by these parameters; incomplete once `stop` is set.
  std::vector<RowChange> row_changes(const NetworkParameters& network,
                                     const std::vector<UsedChoice>& used,
                                     const std::atomic<bool>& stop) const;
  RowProfiles& profiles(int n) const;
  const TunedRange* tuned_range(const ModelQuery& query, const std::string& algorithm,
                                int segments) const;
  // What the range says, where that can be.
  TuningChoice tuned_choice(const ModelQuery& query, const TunedRange& range) const;
  TuningChoice compute(const ModelQuery& query, const TunedRange* range,
                       const std::string& algorithm, int segments) const;
  void explain_tuned(const ModelQuery& query, const TunedRange& range,
                     std::vector<Candidate>& candidates) const;

  const MachineModel machine_;
  const NetworkParameters first_;
  const Options options_;
  const std::shared_ptr<const TuningFile> file_, first_file_;
  mutable std::mutex choices_mutex_;
  mutable std::map<Key, TuningChoice> choices_;
  mutable std::mutex profiles_mutex_;
  mutable std::map<int, std::unique_ptr<RowProfiles>> profiles_;  // by ranks
};

}  // namespace ringwood

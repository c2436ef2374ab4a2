// What was found out about the rows of the table for one group: their profiles and proofs, each
// when it is first needed. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "collectives/tuner/choice/row_profile.h"
#include "collectives/tuner/choice/row_proofs.h"

namespace ringwood {

class RowProfiles final {
 public:
  // The group's n ranks, placed as the machine model says.
  RowProfiles(const MachineModel& machine, int n) : siblings_(machine, n) {}

  const RowProfile& get(const AlgorithmRow& row) {
    Known& known = rows_[&row];
    if (!known.profile) known.profile = profile_of(row, siblings_);
    return *known.profile;
  }
  const WireProof& wire_proof(const AlgorithmRow& row) {
    Known& known = rows_[&row];
    if (!known.wire) known.wire = ringwood::wire_proof(row, siblings_);
    return *known.wire;
  }
  int sum_roundings(const AlgorithmRow& row) {
    Known& known = rows_[&row];
    if (!known.roundings) known.roundings = ringwood::sum_roundings(row, siblings_);
    return *known.roundings;
  }

  // What queries have cost so far, as HostQueues::work() counts it: some 60 to 130 ns each, with
  // all that a choice does besides.
  size_t work() const { return work_; }
  void count(size_t work) { work_ += work; }

 private:
  struct Known {
    std::optional<RowProfile> profile;
    std::optional<WireProof> wire;
    std::optional<int> roundings;
  };
  Siblings siblings_;
  std::map<const AlgorithmRow*, Known> rows_;
  size_t work_ = 0;
};

}  // namespace ringwood

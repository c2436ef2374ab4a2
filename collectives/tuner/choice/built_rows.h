// Prepares rows of the table of algorithms for costing: which of them a call may use, the schedules
// that are simulated for them, and bounds of their time. Part of cost_candidates.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/tuner/choice/cost_candidates.h"
#include "collectives/tuner/choice/row_profiles.h"
#include "collectives/tuner/cost/cost_model.h"

namespace ringwood {

struct BuiltRow {
  const AlgorithmRow* row = nullptr;
  WireFormat wire = WireFormat::exact;
  std::string why_not;  // why it is refused; the rest is not set then
  const RowProfile* profile = nullptr;
  std::vector<RowSample> encoded;  // the profile's samples with roundings
  std::vector<CostModel> models;   // of the samples, in one segment, for private buffers
  size_t steps = 0;                // of the samples
  bool bound = false;              // bind() has set models, steps, bounds, one_round and padded
  CostBounds bounds;               // of one segment, for private buffers
  bool one_round = false;          // the protocol of the plan of one segment
  bool padded = false;             // simulated with more bytes, so that no chunk is empty
  size_t work = 0;                 // done so far to simulate it
  bool too_long = false;           // a simulation of it did not end
  std::vector<int> segments;       // segment counts to be considered, by preference
  // Of one segment, of two and of four, once they are simulated; [1]: of shared buffers.
  std::optional<Prediction> single[2], pair[2], four[2];
  CostBounds shared_bounds;  // as `bounds`, for shared buffers, once single[1] is simulated
  // Of its largest sample: bounds, and what it takes of single[0].
  CostBounds bounds_of_largest;
  double of_largest = 0;

  const std::vector<RowSample>& samples() const {
    return wire == WireFormat::exact ? profile->samples : encoded;
  }
  // The sample of the most ranks. There is one.
  const RowSample& largest() const {
    return *std::ranges::max_element(samples(), {}, [](auto& s) { return s.placement->n; });
  }
};

class RowBuilder final {
 public:
  // All are memory of the caller.
  RowBuilder(const CandidateQuery& query, const MachineModel& machine, RowProfiles& profiles)
      : query_(query), machine_(machine), profiles_(profiles) {}

  // Whether rows in a wire format are considered.
  bool may_encode() const;
  // Nothing where the row in exact form already decides about it.
  std::optional<BuiltRow> build(const AlgorithmRow& row, WireFormat wire) const;
  // No execution is faster: what crosses a host's interfaces, in groups above 1,024 ranks about
  // that. To know more the row is bound, which for rows with n messages a rank is more work than to
  // simulate others.
  double least(const BuiltRow& built) const;
  void bind(BuiltRow& built) const;

 private:
  std::string objection(const AlgorithmRow& row, WireFormat wire) const;
  bool in_one_round(const RowProfile& profile) const;
  std::vector<int> segment_counts(const RowProfile& profile) const;
  double chunk(const RowProfile& profile) const;  // bytes
  CostBounds counted(const RowProfile& profile) const;

  const CandidateQuery& query_;
  const MachineModel& machine_;
  RowProfiles& profiles_;
};

// Of all samples, from those of each.
CostBounds extended(const BuiltRow& built, const std::vector<CostBounds>& of_samples);

// How a sample is costed, for this many of the query's bytes.
Load load_of(const CandidateQuery& query, const BuiltRow& built, const RowSample& sample,
             size_t bytes, bool one_round, bool zero_copy);
// The model of a sample; `load` is load_of() it.
CostModel model_of(const RowSample& sample, int segment_count, const Load& load);

}  // namespace ringwood

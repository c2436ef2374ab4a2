// Prepares rows of the table of algorithms for costing: which of them a call may use, their
// schedules of all ranks, and bounds of their time. Part of cost_candidates.h. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/choice/cost_candidates.h"
#include "collectives/cost/cost_model.h"

namespace ringwood {

struct BuiltRow {
  const AlgorithmRow* row = nullptr;
  WireFormat wire = WireFormat::exact;
  std::string why_not;               // why it is refused; the rest is not set then
  std::vector<Schedule> schedules;   // of all ranks; empty: too many, and `bounds` are a sketch
  size_t steps = 0;                  // of all schedules
  CostBounds bounds;                 // of one segment
  bool one_round = false;            // the protocol of the plan of one segment
  std::vector<int> segments;         // segment counts to be considered, by preference
  std::optional<Prediction> single;  // of one segment, once it is simulated
};

class RowBuilder final {
 public:
  // Both are memory of the caller.
  RowBuilder(const CandidateQuery& query, const MachineModel& machine)
      : query_(query), machine_(machine) {}

  // Whether rows in a wire format are considered.
  bool may_encode() const;
  // Nothing where the row in exact form already decides about it.
  std::optional<BuiltRow> build(const AlgorithmRow& row, WireFormat wire) const;

 private:
  Where where(int rank) const { return {rank, query_.n, 0, machine_.hosts, machine_.nodes}; }
  Schedule schedule(const AlgorithmRow& row, int rank) const;
  std::string objection(const std::vector<Schedule>& schedules, WireFormat wire) const;
  bool in_one_round(const std::vector<Schedule>& schedules) const;
  std::vector<int> segment_counts(const Schedule& schedule) const;
  void sketch(BuiltRow& built) const;
  void bound(BuiltRow& built) const;

  const CandidateQuery& query_;
  const MachineModel& machine_;
};

// The load with which such a row is costed, for this many of the query's bytes.
Load load_of(const CandidateQuery& query, const BuiltRow& built, size_t bytes, bool one_round,
             bool zero_copy);

}  // namespace ringwood

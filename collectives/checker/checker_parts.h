// What the parts of the checker share (checker.h). Each part is a pure function of the set.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/checker/checker.h"

namespace ringwood {

using PlanFlaw = std::optional<std::string>;

struct PlanSet {
  std::span<const std::shared_ptr<const Plan>> plans;
  std::span<const Schedule> proved;
  const PlanFacts& facts;

  int n() const { return static_cast<int>(plans.size()); }
  const Plan& of(int rank) const { return *plans[static_cast<size_t>(rank)]; }
  const CollectiveArgs& args() const { return plans[0]->key.args; }
  bool between_hosts(int a, int b) const {
    return !facts.host.empty() &&
           facts.host[static_cast<size_t>(a)] != facts.host[static_cast<size_t>(b)];
  }
  WireFormat format() const { return static_cast<WireFormat>(plans[0]->fingerprint.wire); }
};

// "rank 2 step 5 (recv 4096 bytes from rank 1)"
std::string plan_step_words(const PlanSet& set, int rank, size_t step);

inline bool in_one_round(const Plan& plan) { return plan.protocol != Protocol::queued; }
inline bool sends(const BoundStep& step) { return step.kind == StepKind::send; }
inline bool receives(const BoundStep& step) {
  return step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
}
inline bool adds_up(const BoundStep& step) {
  return step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce;
}
inline bool has_source(const BoundStep& step) {
  return step.kind == StepKind::send || step.kind == StepKind::reduce ||
         step.kind == StepKind::copy;
}
// A copy onto itself, through a wire format.
inline bool rounds_in_place(const BoundStep& step) {
  return step.kind == StepKind::copy && step.wire != WireFormat::exact;
}

// ---- what is where, by the rows of collective.h ------------------------------------------------

// The number of the user's buffers.
int user_buffers(const PlanSet& set);
// 0 where this rank has no such memory.
size_t user_bytes(const PlanSet& set, int rank, int buffer);
bool user_may_be_written(const PlanSet& set, int rank, int buffer);
// Where `chunk` of segment `segment` lies, for schedules with this number of chunks.
struct ChunkBytes {
  int buffer = 0;
  size_t begin = 0, bytes = 0;
};
ChunkBytes chunk_bytes(const PlanSet& set, int rank, int chunks, int segment, int chunk);

// ---- numbers -----------------------------------------------------------------------------------

// Sums are divided when complete, instead of adding operands that are scaled down (accumulate.h).
// `whole`: that of Plan::scaling.
bool divides_whole_sums(const CollectiveArgs& args, bool whole);
bool scales_here(const CollectiveArgs& args);

// ---- the parts ---------------------------------------------------------------------------------

PlanFlaw check_agreement(const PlanSet& set);
PlanFlaw check_links(const PlanSet& set);
// Checks plans of one round, and early ones. Precondition: check_links() has found nothing.
PlanFlaw check_protocol(const PlanSet& set);
PlanFlaw check_fusions(const PlanSet& set);
PlanFlaw check_places(const PlanSet& set);
PlanFlaw check_device_copies(const PlanSet& set);
PlanFlaw check_order(const PlanSet& set);
PlanFlaw check_values(const PlanSet& set);

}  // namespace ringwood

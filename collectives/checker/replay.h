// Carries out the plans of all ranks on symbols, as the executors do. Part of the checker.
//
// Without buffering: a message moves from its source to its destination at one moment, when its
// send and its receive are both posted. The order decides which of the possible events comes next.
#pragma once

#include <random>
#include <vector>

#include "collectives/checker/checker_parts.h"
#include "collectives/checker/symbols.h"

namespace ringwood {

struct ReplayOrder {
  bool late = false;    // links read and deliver as late as they may
  bool fuses = false;   // fuses whatever may be fused; one round: receives are folded
  uint64_t random = 0;  // seed of a random order; 0: the order is not random
};

// The memory of one rank, and the effect of its additions on it.
class ReplayMemory {
 public:
  ReplayMemory(const PlanSet& set, int rank, Symbols& symbols);
  SymbolRun read(const Place& place, size_t bytes) const;
  void write(const Place& place, const SymbolRun& run);
  // The contents of a user's buffer.
  const SymbolMemory& user(int buffer) const { return buffers_[static_cast<size_t>(buffer)]; }

  // dst op= operand, as a reduction of the plan performs it.
  void add(const BoundStep& step, const SymbolRun& operand);
  // The result of a fusion of the owner's place and the operands.
  SymbolRun fused(const Fusion& fusion, const std::vector<SymbolRun>& operands) const;
  // Runs a local step.
  void run(const BoundStep& step);

 private:
  SymbolMemory& memory(int buffer);
  SymbolRun scaled(const SymbolRun& run, int own) const;
  SymbolRun finished(SymbolRun sum, bool completes) const;
  void accumulate(const BoundStep& step, const SymbolRun& operand);
  size_t beside(const BoundStep& step) const;

  const Plan& plan_;
  Symbols& symbols_;
  const bool divides_, rounds_;
  std::vector<SymbolMemory> buffers_;
  SymbolMemory scratch_, wide_;
};

// Returns nothing, or why the replay does not end, or which unwritten bytes it reads;
// `memory` is by rank.
PlanFlaw replay_queued(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
                       std::vector<ReplayMemory>& memory);
PlanFlaw replay_one_round(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
                          std::vector<ReplayMemory>& memory);

}  // namespace ringwood

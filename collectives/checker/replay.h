// Carries out the plans of all ranks on symbols, as the executor does. Part of the checker.
//
// Zero buffering: a message goes from its place to its place at one moment, when its send and its
// receive are both posted. Which of the possible events comes next is the order's choice.
#pragma once

#include <random>
#include <vector>

#include "collectives/checker/checker_parts.h"
#include "collectives/checker/symbols.h"

namespace ringwood {

struct ReplayOrder {
  bool late = false;    // links read and deliver as late as they may
  bool fuses = false;   // what can be done in one pass is; one round: receives are folded
  uint64_t random = 0;  // the seed of an order that is neither; 0: none
};

// The memory of one rank, and what its additions do to it.
class ReplayMemory {
 public:
  ReplayMemory(const PlanSet& set, int rank, Symbols& symbols);
  SymbolRun read(const Place& place, size_t bytes) const;
  void write(const Place& place, const SymbolRun& run);
  // What lies in the user's buffers.
  const SymbolMemory& user(int buffer) const { return buffers_[static_cast<size_t>(buffer)]; }

  // dst op= operand, as a reduction of the plan does it.
  void add(const BoundStep& step, const SymbolRun& operand);
  // What a fusion makes of the owner's place and of the operands.
  SymbolRun fused(const Fusion& fusion, const std::vector<SymbolRun>& operands) const;
  // A local step.
  void run(const BoundStep& step);

 private:
  SymbolMemory& memory(int buffer);
  SymbolRun scaled(const SymbolRun& run, int own) const;
  SymbolRun finished(SymbolRun sum, bool completes) const;
  void add_in_row(const BoundStep& step, const SymbolRun& operand);
  size_t beside(const BoundStep& step) const;

  const Plan& plan_;
  Symbols& symbols_;
  const bool divides_, rounds_;
  std::vector<SymbolMemory> buffers_;
  SymbolMemory scratch_, wide_;
};

// Nothing, or why it does not end, or what it reads that nobody has written; `memory` is by rank.
PlanFlaw replay_queued(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
                       std::vector<ReplayMemory>& memory);
PlanFlaw replay_one_round(const PlanSet& set, const ReplayOrder& order, Symbols& symbols,
                          std::vector<ReplayMemory>& memory);

}  // namespace ringwood

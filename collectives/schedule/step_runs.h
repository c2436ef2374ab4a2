// The steps of a list, stored as runs: steps of one kind and size whose numbers grow evenly.
//
// "send 5 [5]", "send 6 [6]", "send 7 [7]" is one run. Where a rank meets all others in turn, its
// list is a handful of runs, however many ranks there are. A list that has no long runs is stored
// step by step.
//
// What is read is exactly what was stored, whatever it was, right or wrong. Memory: 40 bytes for
// each run, at most 24 for each step. Reading a step takes the logarithm of the number of runs.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace ringwood {

class StepRuns {
 public:
  StepRuns() = default;
  explicit StepRuns(const std::vector<Step>& steps);

  int32_t size() const { return size_; }
  // Precondition: 0 <= i < size().
  Step operator[](int32_t i) const {
    if (runs_.empty()) return unpacked(packed_[i]);
    const Run& run = runs_.size() == 1 ? runs_[0] : run_of(i);
    return moved(unpacked(run.first), run, i - run.begin);
  }

 private:
  struct PackedStep {
    uint8_t kind;
    bool joined;
    int32_t peer;
    Span dst, src;
  };
  // Numbers are added modulo 2^32, so that any of them can be stored.
  struct Run {
    int32_t begin;  // the number of its first step
    PackedStep first;
    uint32_t peer_by = 0, dst_by = 0, src_by = 0;  // a step's numbers minus those before it
  };

  static PackedStep packed(const Step& step);
  static Step unpacked(const PackedStep& step) {
    return {static_cast<StepKind>(step.kind), step.peer, step.dst, step.src, step.joined};
  }
  static Step moved(Step step, const Run& run, int32_t by) {
    const auto add = [by](int& number, uint32_t each) {
      number = static_cast<int>(static_cast<uint32_t>(number) + each * static_cast<uint32_t>(by));
    };
    add(step.peer, run.peer_by);
    add(step.dst.first, run.dst_by);
    add(step.src.first, run.src_by);
    return step;
  }
  const Run& run_of(int32_t i) const;
  // False: it would need a run too many.
  bool append(int32_t i, const Step& step, size_t most);

  int32_t size_ = 0;
  std::vector<Run> runs_;           // by `begin`; empty: `packed_` has the steps
  std::vector<PackedStep> packed_;  // empty: `runs_` has them
};

}  // namespace ringwood

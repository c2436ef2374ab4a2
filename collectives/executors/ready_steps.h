// Tracks which steps of a plan may run: those whose predecessors (graph.h) are done and, until
// agreed() in an early plan, that are early themselves. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/plan/plan.h"

namespace ringwood {

class ReadySteps final {
 public:
  void start(const Plan& plan);
  // The ranks have agreed.
  void agreed();
  size_t left() const { return left_; }  // steps not done
  bool waits(int32_t step) const { return pending_[step] > 0; }
  void complete(int32_t step);
  // A local step, or an empty one, that may run; -1 if there is none now.
  int32_t take();
  // A rounding (wire_schedule.h), in the order in which they became ready; -1 likewise. Taking them
  // one by one lets the message that needed the first leave before the last is run.
  int32_t take_rounding();

 private:
  void add(int32_t step);

  const Plan* plan_ = nullptr;
  size_t left_ = 0;
  std::vector<int32_t> pending_;  // by step: predecessors not done
  std::vector<int32_t> ready_;
  std::vector<int32_t> kept_;  // until agreed()
  bool keeps_ = false;
  std::vector<int32_t> roundings_;
  size_t rounded_ = 0;  // of roundings_, those already taken
};

}  // namespace ringwood
